import torch

from model.decoding.search import make_search
from model.decoding.search.beam import BeamSearch
from model.decoding.search.greedy import GreedySearch
from model.decoding.search.mixed import MixedSearch
from model.decoding.search.protocol import Step
from model.decoding.sentence import Sentence
from tests.model.decoding.networks import EOS, VOCAB, TableNetwork, request

CONFIG = TableNetwork({}).config
CPU = torch.device("cpu")


def admitted(**options: object) -> Sentence:
    return Sentence.admit(request((4, EOS), **options), CONFIG)


def step(scores_NKV: torch.Tensor, position: int) -> Step:
    return Step(position, scores_NKV, scores_NKV, None, torch.ones(len(scores_NKV), 2, dtype=torch.bool))


def test_one_strategy_needs_no_mixture() -> None:
    assert isinstance(make_search([admitted(), admitted(beam_size=4)], CONFIG, CPU), BeamSearch)
    assert isinstance(make_search([admitted(strategy="greedy")], CONFIG, CPU), GreedySearch)


def test_each_part_sees_its_slots_only_also_after_others_have_left() -> None:
    kinds: list[dict[str, object]] = [
        {"strategy": "sample", "num_hypotheses": 2, "seed": 1},
        {"beam_size": 2},
        {"strategy": "sample", "num_hypotheses": 2, "seed": 2},
        {"beam_size": 2, "length_penalty": 0.0},
    ]
    batch = [admitted(**kind) for kind in kinds]
    mixed, singles = make_search(batch, CONFIG, CPU), [make_search([s], CONFIG, CPU) for s in batch]
    assert isinstance(mixed, MixedSearch)
    running = [0, 1, 2, 3]
    generator = torch.Generator().manual_seed(3)
    for position in range(4):
        scores_NKV = torch.randn(len(running), 2, VOCAB, generator=generator).log_softmax(2)
        choice = mixed.advance(step(scores_NKV, position))
        for slot, sentence in enumerate(running):
            single = singles[sentence].advance(step(scores_NKV[slot : slot + 1], position))
            assert choice.tokens_NK[slot].tolist() == single.tokens_NK[0].tolist()
            assert choice.log_probs_NK[slot].tolist() == single.log_probs_NK[0].tolist()
            assert choice.settled_N[slot].item() == single.settled_N[0].item()
            assert choice.parents_NK is not None
            expected = [0, 1] if single.parents_NK is None else single.parents_NK[0].tolist()
            assert choice.parents_NK[slot].tolist() == expected
        endings = mixed.endings(range(len(running)))
        assert endings == [singles[sentence].endings([0])[0] for sentence in running]
        if position in (0, 1):  # slot 0, then the last part but one of its kind
            mixed.keep(range(1, len(running)))
            running = running[1:]
