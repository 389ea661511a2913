"""ⓕ Self-test sentences: what a network made of a few short texts when its checkpoint was written.

Checksums vouch for files, not for what comes out of them. So whoever serves a checkpoint lets the very
engines that are to serve translate these texts again, and compares. No torch.

Only texts of whose translation the network was sure are kept: each token had at least half of the
probability. Another order of summation, or int8 weights, shifts a probability by some hundredths; so
what an engine makes of such a text is equal, or nearly so. Weights that are scrambled, packed wrongly or
of another tokenizer give something else entirely.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from typing import Final

from model.checkpoint.card import Pair
from model.errors import CheckpointError, TranslationError
from model.request import DecodeOptions, DecodeRequest, Hypothesis
from model.text.languages import canonical_code
from model.text.tokenizer import Tokenizer

PLAIN_SENTENCES: Final[Mapping[str, tuple[str, ...]]] = {
    "de": ("Wo ist der Bahnhof?", "Ich habe Hunger.", "Das Buch liegt auf dem Tisch.", "Wie spät ist es?"),
    "en": ("Where is the station?", "I am hungry.", "The book is on the table.", "What time is it?"),
    "es": ("¿Dónde está la estación?", "Tengo hambre.", "El libro está sobre la mesa.", "¿Qué hora es?"),
    "fr": ("Où est la gare ?", "J'ai faim.", "Le livre est sur la table.", "Quelle heure est-il ?"),
    "it": ("Dov'è la stazione?", "Ho fame.", "Il libro è sul tavolo.", "Che ora è?"),
    "ja": ("駅はどこですか。", "お腹が空きました。", "本は机の上にあります。", "今何時ですか。"),
    "nl": ("Waar is het station?", "Ik heb honger.", "Het boek ligt op de tafel.", "Hoe laat is het?"),
    "pl": ("Gdzie jest dworzec?", "Jestem głodny.", "Książka leży na stole.", "Która jest godzina?"),
    "pt": ("Onde fica a estação?", "Estou com fome.", "O livro está na mesa.", "Que horas são?"),
    "ru": ("Где вокзал?", "Я голоден.", "Книга лежит на столе.", "Который час?"),
    "zh": ("车站在哪里？", "我饿了。", "书在桌子上。", "现在几点了？"),
}
"""By language code; in each language the same four."""


def plain_sentences(language: str) -> tuple[str, ...]:
    """Some of a language, `pt-BR` being `pt`; none where we have none."""
    return PLAIN_SENTENCES.get(canonical_code(language), ())


GOLDEN: Final = "golden"
"""Where provenance.json keeps them."""

MIN_SIMILARITY: Final = 0.6
_LEAST_SURE: Final = math.log(0.5)


@dataclass(frozen=True, kw_only=True)
class GoldenSentence:
    """A short text and its greedy translation.

    Attributes:
        source_language: Code.
        target_language: Code.
        source: Nobody's: neither a user's nor of a corpus.
        translation: Of the network as it was when the checkpoint was written.
    """

    source_language: str
    target_language: str
    source: str
    translation: str

    def to_dict(self) -> dict[str, str]:
        """Plain values, for JSON."""
        return asdict(self)

    def request(self, tokenizer: Tokenizer) -> DecodeRequest:
        """What an engine is asked for the translation."""
        return golden_request(tokenizer, self.source, self.target_language)


def golden_request(tokenizer: Tokenizer, source: str, target_language: str) -> DecodeRequest:
    """A text, to be translated as golden sentences are: the likeliest token each step."""
    ids = tokenizer.encode(source, target_language=target_language)
    return DecodeRequest(tuple(ids), DecodeOptions(strategy="greedy"))


def is_sure(hypothesis: Hypothesis) -> bool:
    """Whether no token had a rival, the end included."""
    return hypothesis.finished and min(hypothesis.token_log_probabilities) >= _LEAST_SURE


def golden_sentences(provenance: Mapping[str, object]) -> tuple[GoldenSentence, ...]:
    """Those that a checkpoint's provenance names; older ones have none.

    Raises:
        CheckpointError: If they are not as they should be.
    """
    entries = provenance.get(GOLDEN, [])
    try:
        if not isinstance(entries, list):
            raise TypeError
        sentences = tuple(GoldenSentence(**entry) for entry in entries)
        if not all(isinstance(value, str) for each in sentences for value in asdict(each).values()):
            raise TypeError
    except TypeError:
        raise CheckpointError(f"provenance.json: `{GOLDEN}` must be a list of golden sentences") from None
    return sentences


def require_alike(golden: Sequence[GoldenSentence], translations: Sequence[str]) -> None:
    """Refuse an engine that translates golden sentences otherwise than they were.

    Args:
        golden: Of one checkpoint.
        translations: What the engine made of them.

    Raises:
        CheckpointError: If the similarity of one direction is below MIN_SIMILARITY: the mean over its
            sentences of the share of characters that both texts have in the same order.
    """
    by_direction: dict[str, list[float]] = {}
    for sentence, translation in zip(golden, translations, strict=True):
        direction = f"{sentence.source_language}-{sentence.target_language}"
        by_direction.setdefault(direction, []).append(similarity(sentence.translation, translation))
    for direction, similarities in by_direction.items():
        mean = sum(similarities) / len(similarities)
        if mean < MIN_SIMILARITY:
            raise CheckpointError(
                f"its golden sentences {direction} come out otherwise than when it was written: "
                f"similarity {mean:.2f}, but at least {MIN_SIMILARITY} is needed"
            )


def similarity(one: str, other: str) -> float:
    """Share of characters that two texts have in the same order, 0 to 1."""
    return SequenceMatcher(None, one, other, autojunk=False).ratio()


Decode = Callable[[Sequence[DecodeRequest]], Sequence[list[Hypothesis] | TranslationError]]
"""An engine: for each request its hypotheses, or why there are none."""

References = Mapping[Pair, Mapping[str, Collection[str]]]
"""For each direction, texts and all their right translations."""


def find_golden(
    pairs: Sequence[Pair],
    decode: Decode,
    tokenizer: Tokenizer,
    *,
    texts: Mapping[Pair, Sequence[str]] | None = None,
    references: References | None = None,
) -> tuple[GoldenSentence, ...]:
    """Find golden sentences of a network with its present weights.

    Args:
        pairs: The directions that the network translates.
        decode: Runs the network.
        tokenizer: The network's tokenizer.
        texts: Texts to choose from; plain sentences for the directions that are not named.
        references: Texts to choose from instead, with people's translations: a sentence is kept only if the
            network's translation equals one of them.

    Returns:
        The sentences of whose translation the network is sure; none for a direction without such a sentence.
    """
    if references is None:
        choices = {pair: (texts or {}).get(pair, plain_sentences(pair[0])) for pair in pairs}
    else:
        choices = {pair: tuple(references.get(pair, {})) for pair in pairs}
    candidates = [(pair, text) for pair in pairs for text in choices[pair]]
    results = decode([golden_request(tokenizer, text, pair[1]) for pair, text in candidates])
    found = (
        GoldenSentence(
            source_language=pair[0],
            target_language=pair[1],
            source=text,
            translation=tokenizer.decode(result[0].token_ids),
        )
        for (pair, text), result in zip(candidates, results, strict=True)
        if isinstance(result, list) and is_sure(result[0])
    )
    return tuple(each for each in found if references is None or _is_right(each, references))


def _is_right(sentence: GoldenSentence, references: References) -> bool:
    pair = (sentence.source_language, sentence.target_language)
    return sentence.translation in references[pair][sentence.source]
