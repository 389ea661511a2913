"""⑤ The decoding options of all slots as tensors, and which features any of them needs.

A step computes every slot by its own options, without a branch: an option is a number in a column.

Shapes: N slots, F fractional options, I integral options.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from model.decode_request import STOPS, DecodeOptions
from model.decoding.pytorch.device_use import to_device
from model.decoding.sentence import ALL_RANKS, Sentence
from model.network.decoder_state import SlotTensors

_FEWEST_RANKS, _RANKS_AT_ONCE = 8, 64

_INTEGRAL: Mapping[str, Callable[[Sentence], int]] = {
    "is_beam_N": lambda s: s.options.strategy == "beam",
    # A draw among one token is greedy search, which takes the first of equally likely tokens.
    "is_sample_N": lambda s: s.options.strategy == "sample" and s.options.top_k != 1,
    "top_k_N": lambda s: s.top_k,
    "seed_N": lambda s: s.seed,
    "shortest_N": lambda s: s.shortest,
    "longest_N": lambda s: s.longest,
    "num_hypotheses_N": lambda s: s.options.num_hypotheses,
    "stop_N": lambda s: STOPS.index(s.options.stop),
    "ngram_size_N": lambda s: s.options.no_repeat_ngram_size,
    "num_start_N": lambda s: len(s.request.start_ids),
}


@dataclass(frozen=True)
class ActiveFeatures:
    """Features that at least one sentence uses; on the host, so that a step needs no branch on the device.

    Attributes:
        beam_search: Beam search.
        independent: Greedy search or sampling.
        sampling: Sampling.
        ranks: How many of the likeliest tokens must be sorted to truncate a distribution, rounded up to
            a power of two; ALL_RANKS is all.
        prefixes: A translation has a given prefix.
        suppressed: Ids are forbidden.
        shortlisted: A sentence has a shortlist.
        min_lengths: A translation has a minimum length.
        ngrams: N-grams may not repeat.
        repetition: Repetition is penalised.
        phrases: A translation has required phrases.
        coverage: The attention is needed for the score.
        alignment: The attention is returned.
    """

    beam_search: bool = False
    independent: bool = False
    sampling: bool = False
    ranks: int = 0
    prefixes: bool = False
    suppressed: bool = False
    shortlisted: bool = False
    min_lengths: bool = False
    ngrams: bool = False
    repetition: bool = False
    phrases: bool = False
    coverage: bool = False
    alignment: bool = False

    @classmethod
    def of(cls, sentence: Sentence) -> Self:
        """The features that one sentence uses."""
        options = sentence.options
        samples, beams = options.strategy == "sample", options.strategy == "beam"
        return cls(
            beam_search=beams,
            independent=not beams,
            sampling=samples,
            ranks=_ranks(options) if samples else 0,
            prefixes=bool(sentence.prefix_ids),
            suppressed=bool(options.suppress_ids),
            shortlisted=sentence.candidates is not None,
            min_lengths=sentence.shortest > 1,
            ngrams=options.no_repeat_ngram_size > 0,
            repetition=options.repetition_penalty != 1,
            phrases=bool(sentence.request.phrases),
            coverage=beams and options.coverage_penalty > 0,
            alignment=options.return_alignment,
        )

    @classmethod
    def union(cls, kinds: Iterable[Self]) -> Self:
        """The features that any of several sentences uses."""
        return cls(*map(max, zip(cls(), *kinds, strict=True)))

    def __iter__(self) -> Iterator[int]:
        return (getattr(self, field.name) for field in dataclasses.fields(self))

    def coarse(self) -> Self:
        """At least the same features, in few combinations: each is recorded once per shape of a step."""
        is_special = self.prefixes or self.suppressed or self.history
        few = _RANKS_AT_ONCE if self.ranks else 0
        return dataclasses.replace(
            self,
            ranks=few if self.ranks <= few else ALL_RANKS,
            prefixes=is_special,
            suppressed=is_special,
            ngrams=is_special,
            repetition=is_special,
            min_lengths=True,
        )

    @property
    def is_plain_greedy(self) -> bool:
        """Returns whether all sentences are decoded greedily, with no constraint but the shortest length."""
        return dataclasses.replace(self, min_lengths=False) == ActiveFeatures(independent=True)

    @property
    def is_plain_beam(self) -> bool:
        """Returns whether all sentences are decoded by beams, with no constraint but the shortest length."""
        return dataclasses.replace(self, min_lengths=False) == ActiveFeatures(beam_search=True)

    @property
    def history(self) -> bool:
        """Returns whether a constraint looks at the tokens of a hypothesis."""
        return self.ngrams or self.repetition

    @property
    def attention(self) -> bool:
        """Returns whether the weights over the source are used."""
        return self.coverage or self.alignment


def _ranks(options: DecodeOptions) -> int:
    if options.top_k:
        return max(_FEWEST_RANKS, 1 << (options.top_k - 1).bit_length())
    return ALL_RANKS if options.top_p < 1 else 0


_FRACTIONAL: Mapping[str, Callable[[Sentence], float]] = {
    "temperature_N": lambda s: s.temperature,
    "top_p_N": lambda s: s.options.top_p,
    "min_p_N": lambda s: s.options.min_p,
    "length_exponent_N": lambda s: s.options.length_penalty,
    "length_offset_N": lambda s: 5.0 if s.options.length_penalty_form == "gnmt" else 0.0,
    "length_scale_N": lambda s: 6.0 if s.options.length_penalty_form == "gnmt" else 1.0,
    "coverage_penalty_N": lambda s: s.options.coverage_penalty,
    "repetition_penalty_N": lambda s: s.options.repetition_penalty,
    "enough_N": lambda s: _enough(s),
}


@dataclass(frozen=True)
class OptionRows:
    """Options of some slots, (N,) each; see DecodeOptions and Sentence.

    Attributes:
        length_offset_N: With `length_scale_N` and `length_exponent_N`, the form of the length penalty.
        enough_N: How many finished hypotheses end a beam search, if its stop rule counts them.
        stop_N: Stop rule, its place in STOPS.
        num_start_N: Tokens of the prefix whose scores do not count.
    """

    temperature_N: Tensor
    top_p_N: Tensor
    min_p_N: Tensor
    length_exponent_N: Tensor
    length_offset_N: Tensor
    length_scale_N: Tensor
    coverage_penalty_N: Tensor
    repetition_penalty_N: Tensor
    enough_N: Tensor
    is_beam_N: Tensor
    is_sample_N: Tensor
    top_k_N: Tensor
    seed_N: Tensor
    shortest_N: Tensor
    longest_N: Tensor
    num_hypotheses_N: Tensor
    stop_N: Tensor
    ngram_size_N: Tensor
    num_start_N: Tensor


class SlotOptions(SlotTensors):
    """Options by slot; those of an empty slot mean nothing."""

    SLOT_TENSORS = ("_fractional_NF", "_integral_NI")

    def __init__(self, slots: int, device: torch.device) -> None:
        self._fractional_NF = torch.ones(slots, len(_FRACTIONAL), device=device)
        self._integral_NI = torch.ones(slots, len(_INTEGRAL), dtype=torch.int64, device=device)

    @staticmethod
    def values(sentences: Sequence[Sentence], device: torch.device) -> tuple[Tensor, Tensor]:
        """The options of sentences on a device, fractional ones (N, F) and integral ones (N, I)."""
        fractional = torch.tensor([[value(s) for value in _FRACTIONAL.values()] for s in sentences])
        integral = torch.tensor([[int(value(s)) for value in _INTEGRAL.values()] for s in sentences])
        return to_device(fractional, device), to_device(integral, device)

    def assign(self, slots_N: Tensor, fractional_NF: Tensor, integral_NI: Tensor) -> None:
        """Set the options of new sentences in these slots; see `values`."""
        self._fractional_NF.index_copy_(0, slots_N, fractional_NF)
        self._integral_NI.index_copy_(0, slots_N, integral_NI)

    def first(self, slots: int) -> OptionRows:
        """The options of the first slots, not copied."""
        return _rows(self._fractional_NF[:slots], self._integral_NI[:slots])

    def of(self, slots_N: Tensor) -> OptionRows:
        """The options of some slots, copied."""
        return _rows(self._fractional_NF.index_select(0, slots_N), self._integral_NI.index_select(0, slots_N))


def _rows(fractional_NF: Tensor, integral_NI: Tensor) -> OptionRows:
    fractional = dict(zip(_FRACTIONAL, fractional_NF.unbind(1), strict=True))
    return OptionRows(**fractional, **dict(zip(_INTEGRAL, integral_NI.unbind(1), strict=True)))


def _enough(sentence: Sentence) -> float:
    options = sentence.options
    if options.stop not in ("patience", "count"):
        return 0.0 if options.stop == "pool" else float("inf")
    return max(options.patience * options.beam_size, float(options.num_hypotheses))
