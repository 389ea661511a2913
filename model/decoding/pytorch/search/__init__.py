"""⑤ Search over a grid: strategies side by side, each slot by its own.

    independent   greedy search and sampling
    sample        drawing one token
    truncation    temperature, top-k, top-p, min-p
    beam          beam search
    stopping      when a beam search has what it wants

Shapes: N slots, K lanes.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from model.decoding.pytorch.search import beam, independent
from model.decoding.pytorch.search.beam import BeamSearch
from model.decoding.pytorch.search.independent import IndependentSearch
from model.decoding.pytorch.search.protocol import Choice, Ending, Step
from model.decoding.pytorch.slot_options import OptionRows
from model.decoding.sentence import Sentence

_INDEPENDENT_WIDTH = 3


class Search:
    """All strategies; those that no sentence of the grid asks for are not computed."""

    def __init__(
        self, slots: int, lanes: int, source_capacity: int, eos_id: int, device: torch.device
    ) -> None:
        self._independent = IndependentSearch(slots, lanes, eos_id, device)
        self._beam = BeamSearch(slots, lanes, source_capacity, eos_id, device)

    @property
    def parts(self) -> tuple[IndependentSearch, BeamSearch]:
        """What is kept of every slot."""
        return self._independent, self._beam

    def advance(self, step: Step) -> Choice:
        """Choose every lane's next token. Nothing here waits for the device."""
        if not step.demands.beams:
            return self._independent.advance(step)
        beam_choice = self._beam.advance(step)
        if not step.demands.lanes:
            return beam_choice
        return _merge(step.options.is_beam_N.bool(), beam_choice, self._independent.advance(step))

    def record(
        self, slots_N: Tensor, positions_N: Tensor, is_source_NS: Tensor, options: OptionRows
    ) -> Tensor:
        """What the results of these slots are made of, one table for one transfer, (N, K, width)."""
        ours = self._independent.record(slots_N, options)
        return torch.cat([ours, self._beam.record(slots_N, positions_N, is_source_NS, options)], -1)


def results(sentence: Sentence, lanes: Sequence[Sequence[float]], length: int) -> list[Ending]:
    """Of a sentence's record: where its hypotheses end, best first, as many as asked for or found."""
    if sentence.options.strategy != "beam":
        return independent.endings([row[:_INDEPENDENT_WIDTH] for row in lanes])
    rows = [row[_INDEPENDENT_WIDTH:] for row in lanes]
    return beam.endings(rows, length, sentence.options.num_hypotheses)


def contenders(sentence: Sentence, lanes: Sequence[Sequence[float]], length: int) -> list[Ending]:
    """Of a sentence's record: where all hypotheses end that its best result may be or continue."""
    if sentence.options.strategy != "beam":
        return independent.endings([row[:_INDEPENDENT_WIDTH] for row in lanes])
    return beam.contenders([row[_INDEPENDENT_WIDTH:] for row in lanes], length)


def _merge(is_beam_N: Tensor, beams: Choice, lanes: Choice) -> Choice:
    is_beam_N1 = is_beam_N[:, None]
    own_K = torch.arange(lanes.tokens_NK.shape[1], device=is_beam_N.device)
    parents_NK = own_K if beams.parents_NK is None else torch.where(is_beam_N1, beams.parents_NK, own_K)
    return Choice(
        tokens_NK=torch.where(is_beam_N1, beams.tokens_NK, lanes.tokens_NK),
        parents_NK=parents_NK,
        log_probs_NK=torch.where(is_beam_N1, beams.log_probs_NK, lanes.log_probs_NK),
        settled_N=torch.where(is_beam_N, beams.settled_N, lanes.settled_N),
    )
