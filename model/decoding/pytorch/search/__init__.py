"""⑤ Search over a batch: strategies side by side, each slot by its own.

    greedy_sample greedy search and sampling, with temperature, top-k, top-p and min-p
    beam          beam search and its stop rules
    phrases       what must be produced: lexically constrained beam search
    constraints   what may not be produced, and the repetition penalty
    step          what a search gets from a step and makes of it; penalties of length and coverage

Shapes: N slots, K hypotheses.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from model.decoding.pytorch.search import beam, greedy_sample
from model.decoding.pytorch.search.beam import BeamRow, BeamSearch
from model.decoding.pytorch.search.greedy_sample import IndependentRow, IndependentSearch
from model.decoding.pytorch.search.phrases import PhraseBanks
from model.decoding.pytorch.search.step import Choice, FinalHypothesis, StepOutput
from model.decoding.pytorch.slot_options import OptionRows
from model.decoding.sentence import Sentence

RECORD_COLUMNS = len(IndependentRow._fields) + len(BeamRow._fields)
_INDEPENDENT = slice(len(IndependentRow._fields))
_BEAM = slice(_INDEPENDENT.stop, None)


class Search:
    """All strategies; those that no sentence of the batch asks for are not computed.

    Attributes:
        independent: Greedy search and sampling.
        beam: Beam search.
    """

    def __init__(
        self,
        slots: int,
        width: int,
        source_capacity: int,
        vocab_size: int,
        eos_id: int,
        device: torch.device,
    ) -> None:
        self.independent = IndependentSearch(slots, width, eos_id, device)
        self.beam = BeamSearch(slots, width, source_capacity, vocab_size, eos_id, device)

    @property
    def parts(self) -> tuple[IndependentSearch, BeamSearch, PhraseBanks]:
        """What is kept of every slot."""
        return self.independent, self.beam, self.beam.phrases

    def clear(self, slots_N: Tensor) -> None:
        """Clear these slots for new sentences."""
        for part in self.parts:
            part.clear(slots_N)

    def assign(self, slots_N: Tensor, sentences: Sequence[Sentence]) -> None:
        """Start new sentences in these slots, which have been cleared."""
        self.beam.phrases.assign(slots_N, sentences)

    def advance(self, step: StepOutput) -> Choice:
        """Choose the next token of every hypothesis. Nothing here waits for the device."""
        if not step.features.beam_search:
            return self.independent.advance(step)
        beam_choice = self.beam.advance(step)
        if not step.features.independent:
            return beam_choice
        return _merge(step.options.is_beam_N.bool(), beam_choice, self.independent.advance(step))

    def record(
        self, slots_N: Tensor, positions_N: Tensor, is_source_NS: Tensor, options: OptionRows
    ) -> Tensor:
        """What the results of these slots are made of: an IndependentRow and a BeamRow per row.

        Returns:
            Shape (N, K, RECORD_COLUMNS).
        """
        independent_NKX = self.independent.record(slots_N, options)
        beam_NKX = self.beam.record(slots_N, positions_N, is_source_NS, options)
        return torch.cat([independent_NKX, beam_NKX], -1)


def results(sentence: Sentence, record_KX: Tensor, length: int) -> list[FinalHypothesis]:
    """Where the results of a sentence end, best first, as many as asked for or found.

    Args:
        sentence: The sentence of one slot.
        record_KX: What `Search.record` has for this slot.
        length: Tokens that the slot has produced.
    """
    if sentence.options.strategy != "beam":
        return greedy_sample.results(_independent_rows(record_KX))
    with_live = sentence.options.limit_finishes and length >= sentence.longest
    return beam.results(_beam_rows(record_KX), length, sentence.options.num_hypotheses, with_live=with_live)


def contenders(sentence: Sentence, record_KX: Tensor, length: int) -> list[FinalHypothesis]:
    """The ends of all hypotheses that the best result may still be or continue; see `results`."""
    if sentence.options.strategy != "beam":
        return greedy_sample.results(_independent_rows(record_KX))
    return beam.contenders(_beam_rows(record_KX), length)


def _independent_rows(record_KX: Tensor) -> list[IndependentRow]:
    return [IndependentRow(*row) for row in record_KX[:, _INDEPENDENT].tolist()]


def _beam_rows(record_KX: Tensor) -> list[BeamRow]:
    return [BeamRow(*row) for row in record_KX[:, _BEAM].tolist()]


def _merge(is_beam_N: Tensor, beams: Choice, others: Choice) -> Choice:
    is_beam_N1 = is_beam_N[:, None]
    own_K = torch.arange(others.tokens_NK.shape[1], device=is_beam_N.device)
    parents_NK = own_K if beams.parents_NK is None else torch.where(is_beam_N1, beams.parents_NK, own_K)
    return Choice(
        tokens_NK=torch.where(is_beam_N1, beams.tokens_NK, others.tokens_NK),
        parents_NK=parents_NK,
        log_probs_NK=torch.where(is_beam_N1, beams.log_probs_NK, others.log_probs_NK),
        settled_N=torch.where(is_beam_N, beams.settled_N, others.settled_N),
    )
