"""What simulated users translate, English and French, and what must be true of any answer."""

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

_LINES = [
    line.split("\t") for line in Path(__file__).with_name("sentences.tsv").read_text("utf-8").splitlines()
]
TEXTS = {code: [text for language, text in _LINES if language == code] for code in ("en", "fr")}
"""Sentences by language."""
DIRECTIONS = (("en", "fr"), ("fr", "en"))
PARAGRAPH_BREAK = "\n\n"


def document(draw: Random, language: str) -> str:
    """A text of three paragraphs of five sentences each."""
    written = (" ".join(draw.choices(TEXTS[language], k=5)) for _ in range(3))
    return PARAGRAPH_BREAK.join(written)


def longest_document(draw: Random, language: str, most_characters: int) -> str:
    """A document of one paragraph that just keeps within a limit."""
    text = ""
    while len(text) + len(following := draw.choice(TEXTS[language])) < most_characters:
        text = f"{text} {following}".lstrip()
    return text


def sentence_requests() -> list[str]:
    """Returns a JSON request for each sentence; the language pairs take turns."""
    return [
        json.dumps(
            {"q": TEXTS[source][number % len(TEXTS[source])], "source": source, "target": target},
            ensure_ascii=False,
        )
        for number in range(max(map(len, TEXTS.values())))
        for source, target in DIRECTIONS
    ]


def fault(text: str | Sequence[str], translated: object) -> str | None:
    """Returns what is wrong with an answer: results that are missing or blank, or lost line breaks."""
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
