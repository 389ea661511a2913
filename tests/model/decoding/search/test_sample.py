from collections import Counter

import pytest
import torch

from model.decoding.search.sample import Truncation
from model.engines import torch_engine
from model.request import DecodeOptions
from tests.model.decoding.comparison import assert_same
from tests.model.decoding.networks import EOS, TableNetwork, lively_network, request, sentences

SCORES = torch.tensor([[[0.4, 0.3, 0.2, 0.1]]]).log()


def kept(**options: object) -> list[int]:
    asked = DecodeOptions.from_dict({"strategy": "sample", **options})
    weights = Truncation([asked], torch.device("cpu")).weights(SCORES)[0, 0].tolist()
    return [token for token, weight in enumerate(weights) if weight > 0]


@pytest.mark.parametrize(
    ("options", "tokens"),
    [
        ({}, [0, 1, 2, 3]),
        ({"top_k": 2}, [0, 1]),
        ({"top_k": 9}, [0, 1, 2, 3]),
        ({"top_p": 0.5}, [0, 1]),
        ({"top_p": 0.75}, [0, 1, 2]),
        ({"top_p": 0.01}, [0]),
        ({"min_p": 0.3}, [0, 1, 2]),
        ({"min_p": 1.0}, [0]),
        ({"top_k": 2, "top_p": 0.55}, [0]),  # of the two, the first holds 0.57
        ({"top_p": 0.75, "temperature": 0.1}, [0]),
        ({"top_k": 3, "min_p": 0.6}, [0, 1]),
    ],
)
def test_each_limit_keeps_the_likeliest(options: dict[str, object], tokens: list[int]) -> None:
    assert kept(**options) == tokens


def test_limits_are_each_slots_own() -> None:
    options = [DecodeOptions(strategy="sample", top_k=1), DecodeOptions(strategy="sample", temperature=2.0)]
    truncation = Truncation(options, torch.device("cpu"))
    weights = truncation.weights(SCORES.repeat(2, 1, 1))[:, 0]
    assert weights[0].tolist() == [1, 0, 0, 0]
    assert weights[1].tolist() == pytest.approx([1, 0.75**0.5, 0.5**0.5, 0.5])
    assert (
        Truncation([*options, DecodeOptions(strategy="sample", top_p=0.5)], torch.device("cpu"))
        .weights(SCORES.repeat(3, 1, 1))[:2, 0]
        .tolist()
        == weights.tolist()
    )
    truncation.keep(torch.tensor([1]))
    assert torch.equal(truncation.weights(SCORES)[:, 0], weights[1:])


def test_a_tiny_temperature_is_greedy() -> None:
    engine, sources = torch_engine(lively_network()), sentences(3, 6, 9)
    cold = engine.decode([request(s, strategy="sample", temperature=1e-30, seed=1) for s in sources])
    for result, expected in zip(
        cold, engine.decode([request(s, strategy="greedy") for s in sources]), strict=True
    ):
        assert isinstance(expected, list)
        assert_same(result, expected)


def test_draws_follow_the_distribution() -> None:
    network = TableNetwork({2: {4: 0.5, 5: 0.3, EOS: 0.2}})
    asked = [request((4, EOS), strategy="sample", seed=seed, num_hypotheses=50) for seed in range(40)]
    draws = Counter(
        h.token_ids for r in torch_engine(network).decode(asked) if isinstance(r, list) for h in r
    )
    assert sum(draws.values()) == 2000
    for tokens, share in (((4,), 0.5), ((5,), 0.3), ((), 0.2)):
        assert draws[tokens] / 2000 == pytest.approx(share, abs=0.04)  # four standard deviations


def test_the_same_seed_gives_the_same_sample_whatever_the_batch() -> None:
    engine, sources = torch_engine(lively_network()), sentences(5, 8, 3, 5)
    asked = request(sources[0], strategy="sample", seed=11, temperature=3.0, num_hypotheses=2)
    alone = engine.decode([asked])[0]
    assert isinstance(alone, list)
    mates = [
        request(s, strategy="sample", seed=i, num_hypotheses=2, top_k=3, max_length=16)
        for i, s in enumerate(sources)
    ]
    beams = [request(s, beam_size=2) for s in sources]
    for together in ([asked, *mates], [*mates, asked], [*beams, asked, *mates]):
        assert_same(engine.decode(together)[together.index(asked)], alone)


def test_seeds_differ_and_so_do_requests_without_one() -> None:
    engine, source = torch_engine(lively_network()), sentences(8)[0]
    for seeds in ([1, 2, 3, 4], [None] * 4):
        asked = [request(source, strategy="sample", temperature=9.0, min_length=9, seed=s) for s in seeds]
        results = engine.decode(asked)
        assert len({r[0].token_ids for r in results if isinstance(r, list)}) == 4


def test_draws_are_ranked_finished_first() -> None:
    asked = request((4, EOS), strategy="sample", seed=1, num_hypotheses=20, max_length=2)
    table = {2: {4: 0.5, 5: 0.5}, 4: {6: 0.5, EOS: 0.5}, 5: {7: 0.9, EOS: 0.1}}
    result = torch_engine(TableNetwork(table)).decode([asked])[0]
    assert isinstance(result, list)
    assert len(result) == 20
    keys = [(not h.finished, -h.score) for h in result]
    assert keys == sorted(keys)
    assert len({h.finished for h in result}) == 2
