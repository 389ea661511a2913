"""⑤ One request as the engine admits it: checked once, with its length bounds computed. No torch."""

import dataclasses
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from model.config import TransformerConfig
from model.decode_request import (
    MAX_PHRASE_TOKENS,
    MAX_PHRASES,
    DecodeOptions,
    DecodeRequest,
    Hypothesis,
    Phrase,
)
from model.errors import InputError, TextTooLongError

if TYPE_CHECKING:  # so that PyTorch is enough to decode
    from model.checkpoint.shortlist import Ids, Shortlist

_SEED_BITS = 63
_COLDEST = 2.0**-126  # the smallest normal number of float32; smaller ones may become 0
ALL_RANKS = 2**31 - 1
"""More than any vocabulary has."""

# Sampling draws the token of a row (hypothesis) at a position by SplitMix64 (Steele et al. 2014,
# https://doi.org/10.1145/2660193.2660195): the finaliser of seed + (row · 2³² + position + 1) · γ, modulo
# 2⁶⁴, of which the upper 24 bits are kept: they fit a float32 without rounding. No state is kept, so that
# a sentence draws the same numbers in any batch and in every runner.
GOLDEN_GAMMA = 0x9E3779B97F4A7C15
FIRST_MULTIPLIER = 0xBF58476D1CE4E5B9
SECOND_MULTIPLIER = 0x94D049BB133111EB
ROW_STRIDE = 2**32
"""The length of the sequence of numbers of one row."""


@dataclass(frozen=True, eq=False)
class Sentence:
    """One sentence on its way through the engine; compared by identity.

    Attributes:
        request: Source ids, options, prefix.
        shortest: Fewest target tokens, start tokens and EOS included.
        longest: Most target tokens, start tokens and EOS included.
        seed: Seed of its random numbers: from the options, or drawn if it is sampled.
        candidates: Target ids that the translation may contain, ascending; None allows all.
    """

    request: DecodeRequest
    shortest: int
    longest: int
    seed: int = 0
    candidates: "Ids | None" = None

    @property
    def options(self) -> DecodeOptions:
        """The options of its request."""
        return self.request.options

    @property
    def prefix_ids(self) -> tuple[int, ...]:
        """Target tokens that the search is made to begin with: start tokens, then the prefix."""
        return self.request.start_ids + self.request.prefix_ids

    @property
    def temperature(self) -> float:
        """Temperature of the options, or the lowest that float32 can divide by."""
        return max(self.options.temperature, _COLDEST)

    @property
    def top_k(self) -> int:
        """`top_k` of the options, limited to 32 bits."""
        return min(self.options.top_k, ALL_RANKS)

    @property
    def source_length(self) -> int:
        """Source tokens, tag and EOS included."""
        return len(self.request.source_ids)

    @property
    def rows(self) -> int:
        """Hypotheses of the sentence that are alive at once."""
        return self.options.rows

    @property
    def kv_slots(self) -> int:
        """The most KV slots that the sentence can occupy: its source and its hypotheses."""
        return self.source_length + self.rows * self.longest

    @classmethod
    def admit(
        cls, request: DecodeRequest, config: TransformerConfig, shortlist: "Shortlist | None" = None
    ) -> Self:
        """Check a request against the network that is to serve it.

        Args:
            request: Source ids, options, prefix.
            config: Configuration of the network.
            shortlist: Shortlist of the checkpoint, if only its candidates may be produced.

        Raises:
            TextTooLongError: If the source, or the prefix and an EOS, is too long.
            InputError: If the source is empty, an id is reserved or not in the vocabulary, or there are too
                many phrases.
        """
        check_source(request.source_ids, config)
        shortest, longest = length_bounds(request, config)
        reserved = {config.pad_id, config.eos_id}
        check_ids("prefix_ids", request.prefix_ids, config.target_vocab_size, reserved)
        check_ids("start_ids", request.start_ids, config.target_vocab_size, reserved)
        needed = request.start_ids + request.prefix_ids
        if request.phrases:
            needed += check_phrases(request.phrases, config.target_vocab_size, reserved)
        if len(request.word_parts) not in (0, config.target_vocab_size):
            lengths = f"must have {config.target_vocab_size} bytes or none, but has {len(request.word_parts)}"
            raise InputError(f"`word_parts` {lengths}", "word_parts")
        most = longest - len(request.start_ids) - 1
        if len(request.prefix_ids) > most:
            raise TextTooLongError("prefix_ids", "max_length - 1", most, len(request.prefix_ids))
        seed = request.options.seed or 0
        if request.options.seed is None and request.options.strategy == "sample":
            # Not by `random`, whose generator belongs to the program that uses the package.
            seed = secrets.randbits(_SEED_BITS)
        return cls(
            request,
            shortest,
            longest,
            seed=seed,
            candidates=None if shortlist is None else shortlist.choose(request.source_ids, needed),
        )

    def without_start(self, hypothesis: Hypothesis) -> Hypothesis:
        """Returns a hypothesis of the search without the start tokens."""
        start = len(self.request.start_ids)
        if start == 0:
            return hypothesis
        log_probs = hypothesis.token_log_probabilities[start:]
        return dataclasses.replace(
            hypothesis,
            token_ids=hypothesis.token_ids[start:],
            log_probability=sum(log_probs),
            token_log_probabilities=log_probs,
            alignment=hypothesis.alignment and hypothesis.alignment[start:],
        )


def length_bounds(request: DecodeRequest, config: TransformerConfig) -> tuple[int, int]:
    """Returns the fewest and most target tokens, start tokens and EOS included."""
    start = len(request.start_ids)
    room = config.max_positions - start
    shortest, longest = request.options.length_bounds(len(request.source_ids), room)
    return shortest and shortest + start, longest + start


def check_source(source_ids: Sequence[int], config: TransformerConfig) -> None:
    """Refuse a source that the encoder cannot read.

    Raises:
        TextTooLongError: If it is over `max_positions`.
        InputError: If it is empty, or holds padding or an id outside the vocabulary.
    """
    if not source_ids:
        raise InputError("`source_ids` must hold at least one token", "source_ids")
    if len(source_ids) > config.max_positions:
        raise TextTooLongError("source_ids", "max_positions", config.max_positions, len(source_ids))
    check_ids("source_ids", source_ids, config.source_vocab_size, {config.pad_id})


def check_ids(field: str, ids: Sequence[int], vocab_size: int, reserved: set[int]) -> None:
    """Refuse ids outside 0…vocab_size−1, and reserved ones.

    Raises:
        InputError: Naming the field and the first such id.
    """
    for token in ids:
        if not 0 <= token < vocab_size or token in reserved:
            allowed = f"ids below {vocab_size} other than {sorted(reserved)}"
            raise InputError(f"`{field}` must hold {allowed}, but has {token} instead", field)


def check_phrases(phrases: Sequence[Phrase], vocab_size: int, reserved: set[int]) -> tuple[int, ...]:
    """Refuse phrases that cannot be decoded; returns their tokens.

    Raises:
        InputError: If there are too many phrases or tokens, a spelling is missing or empty, or an id is
            reserved or not in the vocabulary.
    """
    spellings = [spelling for phrase in phrases for spelling in phrase]
    tokens = tuple(token for spelling in spellings for token in spelling)
    for what, number, most in (
        ("phrases", len(phrases), MAX_PHRASES),
        ("tokens", len(tokens), MAX_PHRASE_TOKENS),
    ):
        if number > most:
            raise InputError(
                f"`phrases` must hold at most {most} {what}, but has {number} instead", "phrases"
            )
    if not (all(phrases) and all(spellings)):
        raise InputError("each of `phrases` must have a spelling of at least one token", "phrases")
    check_ids("phrases", tokens, vocab_size, reserved)
    return tokens
