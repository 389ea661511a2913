"""③ Sentences as word-level tutorials write them: "Go." becomes "go ."."""

import re

_ATTACHED_PUNCTUATION = re.compile(r"(?<=[^ ])[,.!?]")


def separate_punctuation(text: str) -> str:
    """Put a space before each `,` `.` `!` `?` that has none, as Dive into Deep Learning does.

    Every mark counts, also those inside a number; see
    https://d2l.ai/chapter_recurrent-modern/machine-translation-and-dataset.html.
    """
    return _ATTACHED_PUNCTUATION.sub(r" \g<0>", text)
