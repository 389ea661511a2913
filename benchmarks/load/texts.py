"""What simulated users translate, English and French, and what must be true of any answer."""

import json
from collections.abc import Sequence
from random import Random

ENGLISH = (
    "Good morning.",
    "Thank you very much.",
    "Where is the nearest pharmacy?",
    "I would like a table for two.",
    "The train leaves in ten minutes.",
    "Could you speak more slowly, please?",
    "She has been learning the violin since spring.",
    "My brother forgot his umbrella at the office.",
    "It rained all night, but the garden is still dry.",
    "We should call them before they go to bed.",
    "He told me that the shop closes at noon on Saturdays.",
    "If you had asked me yesterday, I would have said yes without thinking twice.",
    "The children built a castle of sand, and the tide carried it away before their parents came back.",
)
FRENCH = (
    "Bonsoir.",
    "Merci beaucoup.",
    "Où est la pharmacie la plus proche ?",
    "Je voudrais une table pour deux.",
    "Le bus part dans cinq minutes.",
    "Pouvez-vous répéter, s'il vous plaît ?",
    "Elle apprend le violon depuis le printemps.",
    "Mon frère a oublié son parapluie au bureau.",
    "Il a plu toute la nuit, mais le jardin est encore sec.",
    "Nous devrions les appeler avant qu'ils se couchent.",
    "Il m'a dit que le magasin ferme à midi le samedi.",
    "Si tu me l'avais demandé hier, j'aurais dit oui sans réfléchir.",
)
TEXTS = {"en": ENGLISH, "fr": FRENCH}
DIRECTIONS = (("en", "fr"), ("fr", "en"))
PARAGRAPH_BREAK = "\n\n"


def document(draw: Random, language: str, *, paragraphs: int = 3, sentences: int = 5) -> str:
    """A text of that many paragraphs of that many sentences each."""
    written = (" ".join(draw.choices(TEXTS[language], k=sentences)) for _ in range(paragraphs))
    return PARAGRAPH_BREAK.join(written)


def longest_document(draw: Random, language: str, most_characters: int) -> str:
    """A document of one paragraph that just keeps within a limit."""
    text = ""
    while len(text) + len(following := draw.choice(TEXTS[language])) < most_characters:
        text = f"{text} {following}".lstrip()
    return text


def sentence_requests() -> list[str]:
    """Every sentence as the JSON of a request of its own, the languages in turn."""
    return [
        json.dumps(
            {"q": TEXTS[source][number % len(TEXTS[source])], "source": source, "target": target},
            ensure_ascii=False,
        )
        for number in range(max(map(len, TEXTS.values())))
        for source, target in DIRECTIONS
    ]


def fault(text: str | Sequence[str], translated: object) -> str | None:
    """What is wrong with an answer: each text needs a result, blank only where the text is, breaks kept."""
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
