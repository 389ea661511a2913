import pytest

from model.decoding.factory import torch_engine
from tests.model.decoding.comparison import assert_same
from tests.model.decoding.networks import EOS, TableNetwork, lively_network, request, sentences

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
    assert isinstance(greedy, list)
    for result in drawn:
        assert_same(result, greedy)


def test_it_takes_the_likeliest_token_each_time() -> None:
    result = torch_engine(TableNetwork(TABLE)).decode([request((4, EOS), strategy="greedy")])[0]
    assert isinstance(result, list)
    assert [h.token_ids for h in result] == [(4, 6, 7)]
    assert result[0].finished
    assert result[0].log_probability == pytest.approx(-1.8018, abs=1e-4)  # log(0.6 · 0.55 · 0.5)
    assert result[0].score == pytest.approx(result[0].log_probability / 4)


def test_the_length_limit_leaves_it_unfinished() -> None:
    asked = request((4, EOS), strategy="greedy", max_length=2, length_penalty=0.0)
    result = torch_engine(TableNetwork(TABLE)).decode([asked])[0]
    assert isinstance(result, list)
    assert (result[0].token_ids, result[0].finished) == ((4, 6), False)
    assert len(result[0].token_log_probabilities) == 2
    assert result[0].score == pytest.approx(result[0].log_probability)


def test_eos_counts_towards_the_length_limit() -> None:
    asked = [request((4, EOS), strategy="greedy", max_length=n) for n in (3, 4)]
    results = torch_engine(TableNetwork(TABLE)).decode(asked)
    assert [r[0].finished for r in results if isinstance(r, list)] == [False, True]
    assert [r[0].token_ids for r in results if isinstance(r, list)] == [(4, 6, 7)] * 2
