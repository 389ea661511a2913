"""Any number of different everyday sentences, put together from a few words; or those of a file."""

import gzip
import os
import random
from itertools import islice
from pathlib import Path

ENVIRONMENT = "DRAGOMAN_TEST_SENTENCES"
"""Asks for the tests of many sentences: `made` for those made here, or a file, one a line, .gz or plain."""


def _phrases(text: str) -> list[str]:
    return text.split("|")


OPENINGS = _phrases(
    "Yesterday|This morning|In the end|To be honest|When it rained|After dinner|"
    "If you have time|Three years ago|As far as I know|On the way home"
)
SUBJECTS = _phrases(
    "I|we|my sister|the old doctor|our neighbours|Tom|the girl with the red hat|everybody|"
    "the children|a friend of mine|nobody in this town|the man who lives next door"
)
ACTIONS = _phrases(
    "could not find the key|wanted to buy a bicycle|waited for the last train|"
    "forgot to close the window|laughed|told me a long story about the sea|"
    "cooked soup for twelve people|lost the game|had never seen so much snow|"
    "had to work until midnight|asked me where the station was|"
    "read the letter twice and said nothing|slept"
)
ENDINGS = _phrases(
    "because it was too late|without a word|in front of the school|"
    "although the doctor was against it|and then went home|as if nothing had happened|"
    "for the first time in ten years|so that the others could rest|before the sun came up|"
    "with a cup of coffee and an old newspaper"
)


def everyday_sentences(count: int) -> list[str]:
    """The same sentences each time: 2 to 25 words, all different; as many of the file's if there is one."""
    choice = os.environ.get(ENVIRONMENT, "made")
    return list(islice(_made(), count)) if choice == "made" else _from_file(Path(choice), count)


def _from_file(path: Path, count: int) -> list[str]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        return list(islice(filter(None, map(str.strip, file)), count))


def _made() -> "dict[str, None]":
    chance, sentences = random.Random(11), dict[str, None]()
    while len(sentences) < 5000:
        clause = f"{chance.choice(SUBJECTS)} {chance.choice(ACTIONS)}"
        if chance.random() < 0.5:
            clause = f"{chance.choice(OPENINGS)}, {clause}"
        for _ in range(chance.choice((0, 1, 1, 2))):
            clause = f"{clause} {chance.choice(ENDINGS)}"
        sentences[f"{clause[0].upper()}{clause[1:]}."] = None
    return sentences
