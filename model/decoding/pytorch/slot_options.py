"""⑤ The decoding options of all sentences of a grid, as columns of numbers on the device.

A step computes every slot by its own options, without a branch: an option is a number in a column.

Shapes: N slots, F fractional options, I integral options.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model.columns import Columns
from model.decoding.pytorch.transfer import to_device
from model.decoding.sentence import Sentence

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
_INTEGRAL: Mapping[str, Callable[[Sentence], int]] = {
    "is_beam_N": lambda s: s.options.strategy == "beam",
    # Among one is none to draw: of equally likely tokens greedy search takes the first.
    "is_sample_N": lambda s: s.options.strategy == "sample" and s.options.top_k != 1,
    "top_k_N": lambda s: s.top_k,
    "seed_N": lambda s: s.seed,
    "shortest_N": lambda s: s.shortest,
    "longest_N": lambda s: s.longest,
    "num_hypotheses_N": lambda s: s.options.num_hypotheses,
    "stops_at_first_N": lambda s: s.options.stop == "first",
    "ngram_size_N": lambda s: s.options.no_repeat_ngram_size,
}


@dataclass(frozen=True)
class OptionRows:
    """Options of some slots, (N,) each; see DecodeOptions and Sentence.

    Attributes:
        length_offset_N: With `length_scale_N` and `length_exponent_N`, the form of the length penalty.
        enough_N: Beam search ends when so many hypotheses have finished.
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
    stops_at_first_N: Tensor
    ngram_size_N: Tensor


class SlotOptions(Columns):
    """Options by slot; those of an empty slot mean nothing."""

    def __init__(self, slots: int, device: torch.device) -> None:
        self._fractional_NF = torch.ones(slots, len(_FRACTIONAL), device=device)
        self._integral_NI = torch.ones(slots, len(_INTEGRAL), dtype=torch.int64, device=device)

    def seat(self, slots_N: Tensor, sentences: Sequence[Sentence]) -> None:
        """Take over the options of new sentences."""
        fractional = torch.tensor([[value(s) for value in _FRACTIONAL.values()] for s in sentences])
        integral = torch.tensor([[int(value(s)) for value in _INTEGRAL.values()] for s in sentences])
        self._fractional_NF.index_copy_(0, slots_N, to_device(fractional, slots_N.device))
        self._integral_NI.index_copy_(0, slots_N, to_device(integral, slots_N.device))

    def first(self, slots: int) -> OptionRows:
        """Those of the first slots, not copied."""
        return _rows(self._fractional_NF[:slots], self._integral_NI[:slots])

    def of(self, slots_N: Tensor) -> OptionRows:
        """Those of some slots."""
        return _rows(self._fractional_NF.index_select(0, slots_N), self._integral_NI.index_select(0, slots_N))


def _rows(fractional_NF: Tensor, integral_NI: Tensor) -> OptionRows:
    fractional = dict(zip(_FRACTIONAL, fractional_NF.unbind(1), strict=True))
    return OptionRows(**fractional, **dict(zip(_INTEGRAL, integral_NI.unbind(1), strict=True)))


def _enough(sentence: Sentence) -> float:
    options = sentence.options
    if options.stop != "patience":
        return float("inf")
    return max(options.patience * options.beam_size, float(options.num_hypotheses))
