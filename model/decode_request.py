"""⑤ Input and output of the decoder: token ids and options, hypotheses. No torch."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self, get_args

from model.validators import require, require_choice, require_integer, require_known, require_number

Strategy = Literal["greedy", "beam", "sample"]
Stop = Literal["patience", "first", "all", "count", "pool"]
LengthPenaltyForm = Literal["power", "gnmt"]
STOPS: tuple[str, ...] = get_args(Stop)
MAX_BEAM_SIZE = 64
NARROW_PHRASE_BEAM_SIZE, PHRASE_BEAM_SIZE = 4, 8
"""Fewest beams of a request with phrases that asks for fewer than four rows, and of others."""
MAX_PHRASES, MAX_PHRASE_TOKENS = 16, 128
"""Most phrases of a request, and most tokens of all their spellings."""

Phrase = tuple[tuple[int, ...], ...]
"""A required phrase: its spellings as token ids, any of which will do."""


@dataclass(frozen=True, kw_only=True)
class DecodeOptions:
    """Options of decoding one sentence. They belong to the sentence, never to its batch.

    Attributes:
        strategy: `greedy` (the likeliest token each step), `beam`, or `sample`.
        beam_size: Hypotheses kept alive in beam search; 1 is greedy.
        num_hypotheses: Translations to return, best first; with `sample`, independent draws.
        length_penalty: Strength of the length normalisation of beam scores; 0 ranks by the raw sum.
        length_penalty_form: `power`: log P / |Y|^α; `gnmt`: log P / ((5 + |Y|) / 6)^α
            (eq. 14 of Wu et al. 2016, https://arxiv.org/abs/1609.08144).
        coverage_penalty: β of the same paper's coverage term; 0 turns it off.
        patience: Beam search ends when patience × beam_size hypotheses have finished
            (Kasai et al. 2022, https://arxiv.org/abs/2204.05424) and no live one is ahead of them.
        stop: `patience`; `first`: as soon as the best live hypothesis has ended;
            `all`: only when no live hypothesis can still beat a finished one;
            `count`: as soon as patience × beam_size hypotheses have finished;
            `pool`: when no live hypothesis, as it stands, is ahead of any of the best finished ones.
            With the last two, hypotheses that reach `max_length` count as finished.
        temperature: Divides the logits before sampling.
        top_k: Sample among the k likeliest tokens; 0 is no limit.
        top_p: Sample among the likeliest tokens that together hold this probability.
        min_p: Drop tokens less likely than this share of the likeliest token's probability.
        seed: Seed of this sentence's random numbers; None draws one.
        max_length: Most tokens of the translation, EOS included; None leaves it to the ratio.
        max_length_ratio: Most target tokens for each source token, plus `max_length_offset`.
        max_length_offset: See `max_length_ratio`.
        min_length: Fewest tokens of the translation, EOS included.
        min_length_ratio: Fewest target tokens for each source token.
        no_repeat_ngram_size: No n-gram of this size appears twice; 0 turns it off.
        repetition_penalty: Above 1 makes tokens that were already produced less likely
            (Keskar et al. 2019, https://arxiv.org/abs/1909.05858).
        suppress_ids: Tokens that are never produced.
        return_alignment: Keep the cross-attention of every produced token.
    """

    strategy: Strategy = "beam"
    beam_size: int = 4
    num_hypotheses: int = 1
    length_penalty: float = 1.0
    length_penalty_form: LengthPenaltyForm = "power"
    coverage_penalty: float = 0.0
    patience: float = 1.0
    stop: Stop = "patience"
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    max_length: int | None = None
    max_length_ratio: float = 3.0
    max_length_offset: int = 20
    min_length: int = 0
    min_length_ratio: float = 0.0
    no_repeat_ngram_size: int = 0
    repetition_penalty: float = 1.0
    suppress_ids: tuple[int, ...] = ()
    return_alignment: bool = False

    def __post_init__(self) -> None:
        require_choice("strategy", self.strategy, get_args(Strategy))
        require_integer("beam_size", self.beam_size, 1, MAX_BEAM_SIZE)
        most = {"greedy": 1, "beam": self.beam_size, "sample": MAX_BEAM_SIZE}[self.strategy]
        require_integer("num_hypotheses", self.num_hypotheses, 1, most)
        require_number("length_penalty", self.length_penalty, 0, 10)
        require_choice("length_penalty_form", self.length_penalty_form, get_args(LengthPenaltyForm))
        require_number("coverage_penalty", self.coverage_penalty, 0, 10)
        require_number("patience", self.patience, 0, 16, open_minimum=True)
        require_choice("stop", self.stop, STOPS)
        self._check_sampling()
        self._check_lengths()
        require_integer("no_repeat_ngram_size", self.no_repeat_ngram_size, 0, 100)
        require_number("repetition_penalty", self.repetition_penalty, 0, 100, open_minimum=True)
        ids = self.suppress_ids if isinstance(self.suppress_ids, tuple) else (None,)
        are_ids = all(isinstance(i, int) and not isinstance(i, bool) and i >= 0 for i in ids)
        require(are_ids, "suppress_ids", "a list of token ids", self.suppress_ids)

    def _check_sampling(self) -> None:
        require_number("temperature", self.temperature, 0, 100, open_minimum=True)
        require_integer("top_k", self.top_k, 0)
        require_number("top_p", self.top_p, 0, 1, open_minimum=True)
        require_number("min_p", self.min_p, 0, 1)
        if self.seed is not None:
            require_integer("seed", self.seed, 0, 2**63 - 1)

    def _check_lengths(self) -> None:
        require_integer("min_length", self.min_length, 0)
        if self.max_length is not None:
            require_integer("max_length", self.max_length, 1)
            require(self.min_length <= self.max_length, "min_length", "at most max_length", self.min_length)
        require_number("max_length_ratio", self.max_length_ratio, 0, 100)
        require_integer("max_length_offset", self.max_length_offset, 1)
        require_number("min_length_ratio", self.min_length_ratio, 0, 100)

    @property
    def limit_finishes(self) -> bool:
        """True if hypotheses that reach the longest length count as finished."""
        return self.strategy == "beam" and self.stop in ("count", "pool")

    @property
    def rows(self) -> int:
        """Rows of the running batch that one sentence occupies."""
        rows = {"greedy": 1, "beam": self.beam_size, "sample": self.num_hypotheses}
        return rows[self.strategy]

    def length_bounds(self, source_length: int, limit: int) -> tuple[int, int]:
        """Returns the fewest and the most target tokens (EOS included) for a source of this many tokens.

        Args:
            source_length: Source tokens, tag and EOS included.
            limit: Capacity of the decoder state.
        """
        relative = int(self.max_length_ratio * source_length) + self.max_length_offset
        # The ratio only guards against endless output: explicit lengths take precedence.
        longest = min(limit, max(relative, self.min_length) if self.max_length is None else self.max_length)
        shortest = max(self.min_length, int(self.min_length_ratio * source_length))
        return min(shortest, longest), longest

    def to_dict(self) -> dict[str, object]:
        """Returns plain values, for JSON."""
        return dataclasses.asdict(self) | {"suppress_ids": list(self.suppress_ids)}

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> Self:
        """Returns the options that a dictionary names.

        Raises:
            ConfigError: If a key is unknown or a value cannot work.
        """
        require_known(values, [field.name for field in dataclasses.fields(cls)])
        plain = dict(values)
        if isinstance(ids := plain.get("suppress_ids"), list):
            plain["suppress_ids"] = tuple(ids)
        return cls(**plain)  # type: ignore[arg-type]


@dataclass(frozen=True)
class DecodeRequest:
    """One sentence for the decoder.

    Attributes:
        source_ids: Source tokens as the network reads them: language tag, pieces, EOS.
        options: How to decode it.
        prefix_ids: Target tokens the translation must begin with.
        start_ids: Target tokens that the decoder reads before the translation, such as the tag of its
            language. They are no part of it: neither of its score, nor of any length.
        phrases: What the translation must contain, equal phrases as often as they are given; the phrases may
            overlap. It lacks one only if the length limit or another option leaves no room for it. Such a
            request is decoded by beam search, whatever the strategy, with at least NARROW_PHRASE_BEAM_SIZE
            or PHRASE_BEAM_SIZE beams, and two for each hypothesis to return. Few of them are alive in most
            steps.
        word_parts: For each target id one byte, 1 if the token continues a word: such a token may not
            follow the token that completes a phrase, unless it continues another one. Empty allows all.
    """

    source_ids: tuple[int, ...]
    options: DecodeOptions
    prefix_ids: tuple[int, ...] = ()
    start_ids: tuple[int, ...] = ()
    phrases: tuple[Phrase, ...] = ()
    word_parts: bytes = b""

    def __post_init__(self) -> None:
        if not self.phrases:
            return
        rows = self.options.rows
        fewest = NARROW_PHRASE_BEAM_SIZE if rows < NARROW_PHRASE_BEAM_SIZE else PHRASE_BEAM_SIZE
        beams = min(max(rows, fewest, 2 * self.options.num_hypotheses), MAX_BEAM_SIZE)
        options = dataclasses.replace(self.options, strategy="beam", beam_size=beams)
        object.__setattr__(self, "options", options)


@dataclass(frozen=True)
class Hypothesis:
    """One translation of one sentence, as token ids.

    Attributes:
        token_ids: Target tokens, without BOS and EOS.
        score: What the search ranked by: length-normalised log-probability.
        log_probability: Natural logarithm of P(tokens | source), EOS included if `finished`.
        token_log_probabilities: Its summands, one a token, EOS's last if `finished`.
        finished: Whether EOS was produced; False means the length limit ended it.
        alignment: For each token, the weights over the source tokens (each row sums to 1):
            cross-attention of the last layer, averaged over its heads. None unless asked for.
    """

    token_ids: tuple[int, ...]
    score: float
    log_probability: float
    token_log_probabilities: tuple[float, ...]
    finished: bool
    alignment: tuple[tuple[float, ...], ...] | None = None
