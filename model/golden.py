"""ⓕ Golden sentences: what a network made of a few short texts when its checkpoint was written.

Checksums vouch for files, not for what comes out of them. So whoever serves a checkpoint lets the very
engines that are to serve translate these texts again, and compares. No torch.

Only texts of whose translation the network was sure are kept: each token had at least half of the
probability. Another order of summation, or int8 weights, shifts a probability by some hundredths; so
what an engine makes of such a text is equal, or nearly so. Weights that are scrambled, packed wrongly or
of another tokenizer give something else entirely.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from typing import Final

from model.errors import CheckpointError
from model.request import DecodeOptions, DecodeRequest, Hypothesis
from model.text.tokenizer import Tokenizer

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
