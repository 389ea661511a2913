from random import Random

import pytest

from model.training.data.augmentation.sentences import (
    SentenceContext,
    joined,
    stripped,
    without_final_stop,
)
from model.training.data.corpus import SentencePair

FRENCH = [
    SentencePair("Come in.", "Entrez."),
    SentencePair("Why?", "Pourquoi ?"),
    SentencePair("No!", "Non !"),
]
CHINESE = [
    SentencePair("I see.", "我明白。"),
    SentencePair("Really?", "真的吗？"),
    SentencePair("Go!", "去！"),
]


def context(pairs: list[SentencePair], *languages: str) -> SentenceContext:
    return SentenceContext(languages[0], languages[1], pairs)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Come in.", "Come in"),
        ("Tu viens ?", "Tu viens"),
        ("Wait...", "Wait"),
        ("Really?!", "Really"),
        ("真的吗？", "真的吗"),
        ("¿Vienes?", "Vienes"),
        ("¡Hola! ¿Qué tal?", "¡Hola! Qué tal"),
        ("¿Vienes? Bien.", "¿Vienes? Bien"),
        ("No stop", None),
        ('"Why not?"', None),
        ("...", ""),
    ],
)
def test_final_stop_goes_with_the_space_before_it(text: str, expected: str | None) -> None:
    assert stripped(text) == expected


def test_both_sides_lose_their_stop_or_neither() -> None:
    here = context(FRENCH, "en", "fr")
    assert without_final_stop(FRENCH[1], here, Random(0)) == ("Why", "Pourquoi")
    assert without_final_stop(SentencePair("Why?", "Pourquoi"), here, Random(0)) is None
    assert without_final_stop(SentencePair("?", "Quoi ?"), here, Random(0)) is None


@pytest.mark.parametrize(("pairs", "language", "gap"), [(FRENCH, "fr", " "), (CHINESE, "zh", "")])
def test_joined_sides_keep_in_step(pairs: list[SentencePair], language: str, gap: str) -> None:
    lengths = set()
    for seed in range(30):
        pair = joined(pairs[0], context(pairs, "en", language), Random(seed))
        assert pair is not None
        sentences = _cut(pair.source, [each.source for each in pairs])
        meant = gap.join(dict(pairs)[sentence] for sentence in sentences)
        assert (pair.target, sentences[0]) == (meant, pairs[0].source)
        lengths.add(len(sentences))
    assert lengths == {2, 3}


def test_what_does_not_end_is_not_joined() -> None:
    pair = SentencePair("A caption", "Une légende")
    assert all(joined(pair, context(FRENCH, "en", "fr"), Random(seed)) is None for seed in range(5))


def _cut(text: str, known: list[str]) -> list[str]:
    sentences = []
    while text:
        sentences.append(next(each for each in known if text.startswith(each)))
        text = text.removeprefix(sentences[-1]).removeprefix(" ")
    return sentences
