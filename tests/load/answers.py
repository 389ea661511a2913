"""What must be true of any translation."""

from collections.abc import Sequence

from tests.load.texts import PARAGRAPH_BREAK


def fault(text: str | Sequence[str], translated: object) -> str | None:
    """What is wrong with an answer: each text needs a result, blank only where the text is, breaks kept.

    Args:
        text: What was to be translated.
        translated: What came back for it.
    """
    if isinstance(text, str) != isinstance(translated, str):
        return f"a {type(translated).__name__} answers a {type(text).__name__}"
    texts = [text] if isinstance(text, str) else text
    results = [translated] if isinstance(translated, str) else translated
    if not isinstance(results, list) or len(texts) != len(results):
        return "not one result for each text"
    for original, result in zip(texts, results, strict=True):
        if bool(original.strip()) != bool(result.strip()):
            return "a blank translation"
        if original.count(PARAGRAPH_BREAK) != result.count(PARAGRAPH_BREAK):
            return "paragraphs were joined or split"
    return None
