import pytest
import torch

from model.decoding.factory import torch_engine
from model.decoding.pytorch.search.greedy_sample import uniform_numbers
from tests.model.decoding.comparison import assert_same
from tests.model.decoding.networks import EOS, TableNetwork, lively_network, request, sentences
from tests.model.decoding.reference import uniform


@pytest.mark.parametrize("other", [{"beam_size": 1}, {"strategy": "sample", "top_k": 1, "seed": 9}])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_greedy_is_a_beam_of_one_and_a_sample_of_the_likeliest(seed: int, other: dict[str, object]) -> None:
    engine, sources = torch_engine(lively_network(seed)), sentences(*range(2, 12))
    greedy = engine.decode([request(s, strategy="greedy") for s in sources])
    for result, expected in zip(engine.decode([request(s, **other) for s in sources]), greedy, strict=True):
        assert isinstance(expected, list)
        assert_same(result, expected)


def test_of_equally_likely_tokens_a_sample_of_one_takes_what_greedy_search_takes() -> None:
    tied = {2: dict.fromkeys(range(4, 12), 0.125), **{token: {EOS: 1.0} for token in range(4, 12)}}
    engine = torch_engine(TableNetwork(tied))
    others = [request((4, EOS), strategy="sample", top_k=1, seed=seed) for seed in range(20)]
    greedy, *drawn = engine.decode([request((4, EOS), strategy="greedy"), *others])
    for result in drawn:
        assert_same(result, greedy)


def test_all_numbers_at_once_are_those_of_each_place() -> None:
    seeds, positions = [0, 1, 12345, 2**63 - 1], [0, 1, 511, 100_000]
    numbers_NK = uniform_numbers(torch.tensor(seeds), torch.tensor(positions), 64)
    for slot, place in enumerate(zip(seeds, positions, strict=True)):
        expected = [uniform(place[0], row, place[1]) for row in range(64)]
        assert numbers_NK[slot].tolist() == expected


def test_a_tiny_temperature_is_greedy() -> None:
    engine, sources = torch_engine(lively_network()), sentences(3, 6, 9)
    cold = engine.decode([request(s, strategy="sample", temperature=1e-30, seed=1) for s in sources])
    for result, expected in zip(
        cold, engine.decode([request(s, strategy="greedy") for s in sources]), strict=True
    ):
        assert isinstance(expected, list)
        assert_same(result, expected)


def test_seeds_differ_and_so_do_requests_without_one() -> None:
    engine, source = torch_engine(lively_network()), sentences(8)[0]
    for seeds in ([1, 2, 3, 4], [None] * 4):
        asked = [request(source, strategy="sample", temperature=9.0, min_length=9, seed=s) for s in seeds]
        results = engine.decode(asked)
        assert len({r[0].token_ids for r in results if isinstance(r, list)}) == 4


def test_the_numbers_are_those_of_splitmix64() -> None:
    """Its first outputs for the seed 1234567, of which the upper 24 bits count."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    drawn = [uniform(1234567, 0, position) for position in range(4)]
    assert drawn == [(number >> 40) / 2**24 for number in published]
