"""A translation that shows what is translated of a file: its texts in capitals."""

import re

from model.text.formats.formats import read_file


def shout(text: str) -> str:
    """Upper case outside of tags and entities."""
    return re.sub(
        r"<[^>]*>|&\w+;|[^<&]+", lambda part: part[0] if part[0][0] in "<&" else part[0].upper(), text
    )


def shouted(suffix: str, content: bytes) -> bytes:
    """Returns a file whose texts are in upper case."""
    file = read_file(suffix, content, "fr", 10**6)
    return file.rebuild([shout(text) if file.markup else text.upper() for text in file.texts])
