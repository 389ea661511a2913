import torch
from torch import Tensor

from model.decoding.pytorch.search import Search, contenders, results
from model.decoding.pytorch.search.step import Choice, StepOutput
from model.decoding.pytorch.slot_options import ActiveFeatures
from model.decoding.sentence import Sentence
from tests.model.decoding.networks import EOS, VOCAB
from tests.model.decoding.slots import CPU, admitted, option_rows

KINDS: list[dict[str, object]] = [
    {"strategy": "sample", "num_hypotheses": 2, "seed": 1},
    {"beam_size": 2},
    {"strategy": "sample", "num_hypotheses": 2, "seed": 2},
    {"beam_size": 2, "length_penalty": 0.0},
]


class Walk:
    """A search over some sentences, fed with the same scores as every other one."""

    def __init__(self, batch: list[Sentence], scores_TNKV: Tensor) -> None:
        self.batch, self.scores_TNKV = batch, scores_TNKV
        self.search = Search(len(batch), 2, 3, VOCAB, EOS, CPU)
        self.search.clear(torch.arange(len(batch)))
        self.search.assign(torch.arange(len(batch)), batch)

    def advance(self, position: int) -> Choice:
        scores_NKV, slots = self.scores_TNKV[position], len(self.batch)
        return self.search.advance(
            StepOutput(
                positions_N=torch.full((slots,), position),
                ranking_NKV=scores_NKV,
                model_NKV=scores_NKV,
                attention_NKS=None,
                is_source_NS=torch.ones(slots, 3, dtype=torch.bool),
                is_live_N=torch.ones(slots, dtype=torch.bool),
                options=option_rows(self.batch),
                features=ActiveFeatures.union(map(ActiveFeatures.of, self.batch)),
            )
        )

    def records(self, length: int) -> Tensor:
        slots = len(self.batch)
        is_source_NS, lengths_N = torch.ones(slots, 3, dtype=torch.bool), torch.full((slots,), length)
        return self.search.record(torch.arange(slots), lengths_N, is_source_NS, option_rows(self.batch))


def walks() -> tuple[Walk, list[Walk]]:
    """One over all kinds, and one over each alone."""
    batch = [admitted(**kind) for kind in KINDS]
    generator = torch.Generator().manual_seed(3)
    scores_TNKV = torch.randn(4, len(batch), 2, VOCAB, generator=generator).log_softmax(3)
    singles = [Walk([s], scores_TNKV[:, slot : slot + 1]) for slot, s in enumerate(batch)]
    return Walk(batch, scores_TNKV), singles


def test_strategies_side_by_side_choose_as_each_does_alone() -> None:
    mixed, singles = walks()
    for position in range(4):
        choice = mixed.advance(position)
        records = mixed.records(position + 1)
        assert choice.parents_NK is not None
        for slot, single in enumerate(singles):
            alone, sentence = single.advance(position), mixed.batch[slot]
            assert choice.tokens_NK[slot].tolist() == alone.tokens_NK[0].tolist()
            assert choice.log_probs_NK[slot].tolist() == alone.log_probs_NK[0].tolist()
            assert choice.settled_N[slot].item() == alone.settled_N[0].item()
            own = [0, 1] if alone.parents_NK is None else alone.parents_NK[0].tolist()
            assert choice.parents_NK[slot].tolist() == own
            record, [lonely] = records[slot], single.records(position + 1)
            for of in (results, contenders):
                assert of(sentence, record, position + 1) == of(sentence, lonely, position + 1)


def test_a_slot_that_moved_goes_on_with_its_own_results() -> None:
    mixed, _ = walks()
    for position in range(3):
        mixed.advance(position)
    before = mixed.records(3)[3].clone()
    for part in mixed.search.parts:
        part.move(torch.tensor([3]), torch.tensor([1]))
    assert results(mixed.batch[3], mixed.records(3)[1], 3) == results(mixed.batch[3], before, 3)
