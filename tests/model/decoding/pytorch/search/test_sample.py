from collections import Counter

import pytest
import torch

from model.decoding.factory import torch_engine
from model.decoding.pytorch.search.independent import uniform_numbers
from model.decoding.random_numbers import uniform
from tests.model.decoding.comparison import assert_same
from tests.model.decoding.networks import EOS, TableNetwork, lively_network, request, sentences


def test_all_numbers_at_once_are_those_of_each_place() -> None:
    seeds, positions = [0, 1, 12345, 2**63 - 1], [0, 1, 511, 100_000]
    numbers_NK = uniform_numbers(torch.tensor(seeds), torch.tensor(positions), 64)
    for slot, place in enumerate(zip(seeds, positions, strict=True)):
        expected = [uniform(place[0], lane, place[1]) for lane in range(64)]
        assert numbers_NK[slot].tolist() == expected


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
