"""⑤ One running batch: step the network, choose, hand back what has finished, shrink.

Shapes: N slots, K lanes, S source, T tokens produced so far, V vocabulary.
"""

from collections.abc import Collection, Sequence
from itertools import takewhile

import torch
from torch import Tensor

from model.decoding.constraints import Constraints
from model.decoding.network import Network
from model.decoding.runner import Result
from model.decoding.scoring import take_lanes
from model.decoding.search import make_search
from model.decoding.search.protocol import Choice, Ending, Step
from model.decoding.sentence import Sentence
from model.decoding.trace import SlotTrace, Trace
from model.errors import DecodingError
from model.request import Hypothesis


class RunningBatch:
    """Sentences that are decoded together, each in its slot of `lanes` rows.

    Args:
        network: In evaluation mode.
        sentences: At least one; all occupy equally many lanes.
        device: Where the network lives.
        never_produced: Target ids that no translation may hold, beside padding and BOS.

    Attributes:
        sentences: Those still running, by slot.
        lanes: Rows a sentence occupies.
    """

    def __init__(
        self,
        network: Network,
        sentences: Sequence[Sentence],
        device: torch.device,
        never_produced: Collection[int] = (),
    ) -> None:
        self.sentences = list(sentences)
        self.lanes = sentences[0].options.lanes
        self._network, self._config, self._device = network, network.config, device
        capacity = max(s.longest for s in sentences)
        source_NS = pad_rows([s.request.source_ids for s in sentences], self._config.pad_id, device)
        memory = network.encode(source_NS)
        self._mask_NS = memory.mask_NS
        self._state = network.start(memory, lanes=self.lanes, capacity=capacity)
        self._search = make_search(sentences, self._config, device)
        self._never_produced = never_produced
        self._constraints = Constraints(sentences, self._config, device, never_produced)
        self._trace = Trace(len(sentences), self.lanes, capacity, device)
        shape = (len(sentences), self.lanes)
        self._tokens_NK = torch.full(shape, self._config.decoder_start_id, device=device)
        self._history_NKT = torch.zeros(*shape, 0, dtype=torch.int64, device=device)
        self._keeps_attention = any(s.options.return_alignment for s in sentences)
        self._needs_attention = self._keeps_attention or any(s.options.coverage_penalty for s in sentences)

    @property
    def position(self) -> int:
        """Tokens that every lane has produced."""
        return self._history_NKT.shape[2]

    def step(self) -> list[tuple[Sentence, Result]]:
        """Produce one token in every lane; returns the sentences that this finished.

        The host waits for the device once: to learn which slots are settled or broken.
        """
        position = self.position
        offer = self._offer(position)
        choice = self._search.advance(offer)
        self._trace.record(position, choice, offer.attention_NKS if self._keeps_attention else None)
        self._tokens_NK = choice.tokens_NK
        self._extend_history(choice)
        is_broken_N = choice.log_probs_NK.isnan().any(1)
        settled, broken = torch.stack([choice.settled_N, is_broken_N]).tolist()
        done = [
            slot
            for slot, sentence in enumerate(self.sentences)
            if settled[slot] or broken[slot] or sentence.longest <= position + 1
        ]
        finished = self._collect(done, broken, position + 1) if done else []
        parents_NK = self._shrink(done, choice.parents_NK) if done else choice.parents_NK
        if self.sentences and self.lanes > 1 and parents_NK is not None:
            self._state.reorder(parents_NK)
        return finished

    def drop(self, sentences: Sequence[Sentence]) -> None:
        """Leave these out from the next step on, those that are here."""
        self._shrink([slot for slot, sentence in enumerate(self.sentences) if sentence in sentences], None)

    def agreed(self, sentence: Sentence) -> tuple[int, ...]:
        """Target tokens that all of a sentence's hypotheses begin with."""
        slot = self.sentences.index(sentence)
        trace = self._trace.of_slots([slot], self.position)[0]
        rows = [trace.tokens_of(lane, length) for lane, length in self._search.contenders(slot)]
        return common_prefix(rows)

    def _offer(self, position: int) -> Step:
        logits_NKV = self._network.decode_step(
            self._tokens_NK, self._state, return_attention=self._needs_attention
        )
        model_NKV = logits_NKV.float().log_softmax(2)
        ranking_NKV = self._constraints.apply(model_NKV, self._history_NKT)
        weights = self._state.last_cross_attention_NKS
        attention_NKS = None if weights is None else weights.float()
        return Step(position, ranking_NKV, model_NKV, attention_NKS, self._mask_NS)

    def _extend_history(self, choice: Choice) -> None:
        past_NKT = self._history_NKT
        if choice.parents_NK is not None and self._constraints.needs_history:
            past_NKT = take_lanes(past_NKT, choice.parents_NK)
        self._history_NKT = torch.cat([past_NKT, choice.tokens_NK[..., None]], 2)

    def _collect(
        self, done: Sequence[int], broken: Sequence[bool], length: int
    ) -> list[tuple[Sentence, Result]]:
        endings = self._search.endings(done)
        traces = self._trace.of_slots(done, length)
        results: list[tuple[Sentence, Result]] = []
        for slot, ends, trace in zip(done, endings, traces, strict=True):
            sentence = self.sentences[slot]
            if broken[slot]:
                results.append((sentence, DecodingError("the network's output is not a number")))
            elif not ends:
                results.append((sentence, DecodingError("the decoding options leave no token to produce")))
            else:
                results.append((sentence, [_hypothesis(trace, e, sentence) for e in ends]))
        return results

    def _shrink(self, done: Sequence[int], parents_NK: Tensor | None) -> Tensor | None:
        """Drop finished slots everywhere; returns the parents of those that stay."""
        kept = [slot for slot in range(len(self.sentences)) if slot not in done]
        self.sentences = [self.sentences[slot] for slot in kept]
        if not kept:
            return None
        index = torch.tensor(kept, device=self._device)
        self._state.keep(index)
        self._trace.keep(index)
        self._search.keep(kept)
        self._constraints = Constraints(self.sentences, self._config, self._device, self._never_produced)
        self._mask_NS = self._mask_NS.index_select(0, index)
        self._tokens_NK = self._tokens_NK.index_select(0, index)
        self._history_NKT = self._history_NKT.index_select(0, index)
        return None if parents_NK is None else parents_NK.index_select(0, index)


def _hypothesis(trace: SlotTrace, ending: Ending, sentence: Sentence) -> Hypothesis:
    return trace.hypothesis(
        ending,
        source_length=sentence.source_length,
        with_alignment=sentence.options.return_alignment,
    )


def common_prefix(rows: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """What all of them begin with."""
    shared = takewhile(lambda tokens: len(set(tokens)) == 1, zip(*rows, strict=False))
    return tuple(tokens[0] for tokens in shared)


def pad_rows(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> Tensor:
    """Rows of different lengths as one matrix, padded on the right."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[pad_id] * (width - len(row))] for row in rows], device=device)
