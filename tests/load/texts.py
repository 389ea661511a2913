"""What the simulated users translate, in both directions of the embedded checkpoint."""

import json
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
    """A text of so many paragraphs of so many sentences each.

    Args:
        draw: Which sentences.
        language: Of the text.
        paragraphs: At least 1.
        sentences: In each; at least 1.
    """
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
    bodies = []
    for number in range(max(map(len, TEXTS.values()))):
        for source, target in DIRECTIONS:
            text = TEXTS[source][number % len(TEXTS[source])]
            bodies.append(json.dumps({"q": text, "source": source, "target": target}, ensure_ascii=False))
    return bodies
