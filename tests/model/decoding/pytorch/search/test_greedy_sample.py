from collections import Counter
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from model.decoding.factory import torch_engine
from model.decoding.pytorch.search.greedy_sample import truncated_weights, uniform_numbers
from model.decoding.pytorch.slot_options import ActiveFeatures
from model.decoding.sentence import Sentence
from tests.model.decoding.comparison import assert_same
from tests.model.decoding.networks import EOS, TableNetwork, lively_network, request, sentences
from tests.model.decoding.reference import uniform
from tests.model.decoding.slots import admitted, option_rows

TABLE = {2: {4: 0.6, 5: 0.4}, 4: {6: 0.55, EOS: 0.45}, 5: {EOS: 1.0}, 6: {7: 0.5, 8: 0.3, EOS: 0.2}}


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


def test_it_takes_the_likeliest_token_each_time() -> None:
    result = torch_engine(TableNetwork(TABLE)).decode([request((4, EOS), strategy="greedy")])[0]
    assert [h.token_ids for h in result] == [(4, 6, 7)]
    assert result[0].finished
    assert result[0].log_probability == pytest.approx(-1.8018, abs=1e-4)  # log(0.6 · 0.55 · 0.5)
    assert result[0].score == pytest.approx(result[0].log_probability / 4)


SCORES = torch.tensor([[[0.4, 0.3, 0.2, 0.1]]]).log()


def kept(**options: object) -> list[int]:
    weights = weigh([admitted(strategy="sample", **options)])[0].tolist()
    return [token for token, weight in enumerate(weights) if weight > 0]


def weigh(batch: Sequence[Sentence]) -> Tensor:
    scores_NKV, ranks = (
        SCORES.repeat(len(batch), 1, 1),
        ActiveFeatures.union(map(ActiveFeatures.of, batch)).ranks,
    )
    return truncated_weights(scores_NKV, option_rows(batch), ranks)[:, 0]


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
    batch = [admitted(strategy="sample", top_k=1), admitted(strategy="sample", temperature=2.0)]
    weights = weigh(batch)
    assert weights[0].tolist() == [1, 0, 0, 0]
    assert weights[1].tolist() == pytest.approx([1, 0.75**0.5, 0.5**0.5, 0.5])
    with_a_nucleus = weigh([*batch, admitted(strategy="sample", top_p=0.5)])
    assert torch.equal(with_a_nucleus[:2], weights)


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


def test_draws_follow_the_distribution() -> None:
    network = TableNetwork({2: {4: 0.5, 5: 0.3, EOS: 0.2}})
    asked = [request((4, EOS), strategy="sample", seed=seed, num_hypotheses=50) for seed in range(40)]
    draws = Counter(
        h.token_ids for r in torch_engine(network).decode(asked) if isinstance(r, list) for h in r
    )
    assert sum(draws.values()) == 2000
    for tokens, share in (((4,), 0.5), ((5,), 0.3), ((), 0.2)):
        assert draws[tokens] / 2000 == pytest.approx(share, abs=0.04)  # four standard deviations


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
    assert len(result) == 20
    keys = [(not h.finished, -h.score) for h in result]
    assert keys == sorted(keys)
    assert len({h.finished for h in result}) == 2


def test_the_numbers_are_those_of_splitmix64() -> None:
    """Its first outputs for the seed 1234567, of which the upper 24 bits count."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    drawn = [uniform(1234567, 0, position) for position in range(4)]
    assert drawn == [(number >> 40) / 2**24 for number in published]
