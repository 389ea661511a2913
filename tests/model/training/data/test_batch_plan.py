import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.training.config.data import BatchConfig
from model.training.data.batches import plan_epoch
from model.training.data.token_store import Lengths


def lengths(count: int, seed: int) -> Lengths:
    """Of sentences as they are: many short ones, few long ones."""
    draws = np.random.default_rng(seed).gamma(4, 3, count)
    return (2 + draws).astype(np.int32)


SOURCES = lengths(20_000, 0)
TARGETS = np.maximum(2, SOURCES + np.random.default_rng(1).integers(-3, 4, len(SOURCES))).astype(np.int32)
EVEN = np.ones(len(SOURCES))


@settings(max_examples=25)
@given(
    count=st.integers(1, 60),
    max_tokens=st.integers(150, 400),
    max_sentences=st.none() | st.integers(1, 9),
    pool_size=st.integers(1, 70),
    seed=st.integers(0, 2**40),
)
def test_every_pair_is_in_one_batch_within_budget(
    count: int, max_tokens: int, max_sentences: int | None, pool_size: int, seed: int
) -> None:
    sources, targets = lengths(count, 1), lengths(count, 2)
    config = BatchConfig(max_tokens=max_tokens, max_sentences=max_sentences, pool_size=pool_size)
    plan = plan_epoch(sources, targets, np.ones(count), config, [seed, 0])
    assert sorted(np.concatenate(plan.batches).tolist()) == list(range(count))
    costs = [len(batch) * (sources[batch].max() + targets[batch].max()) for batch in plan.batches]
    assert max(costs) <= max_tokens
    assert max(map(len, plan.batches)) <= (max_sentences or count)
    assert plan.padded_tokens == sum(costs)
    assert plan.tokens == sources.sum() + targets.sum()


@pytest.mark.parametrize("max_tokens", [1024, 2048, 4096])
def test_little_is_padding(max_tokens: int) -> None:
    plan = plan_epoch(SOURCES, TARGETS, EVEN, BatchConfig(max_tokens=max_tokens), [0, 0])
    assert 0 < plan.padding_share < 0.05


def test_same_seed_gives_the_same_batches_and_another_epoch_others() -> None:
    first, same, other, epoch = (
        [batch.tolist() for batch in plan_epoch(SOURCES, TARGETS, EVEN, BatchConfig(), seed).batches]
        for seed in ([7, 0], [7, 0], [8, 0], [7, 1])
    )
    assert first == same
    assert first != other
    assert first != epoch
    groups, later = ({frozenset(batch) for batch in batches} for batches in (first, epoch))
    assert len(groups & later) < 0.1 * len(groups), "pairs meet others, too"


def test_long_and_short_batches_are_mixed() -> None:
    plan = plan_epoch(SOURCES, TARGETS, EVEN, BatchConfig(max_tokens=2048), [0, 0])
    longest = np.array([SOURCES[batch].max() for batch in plan.batches])
    halves = np.array_split(longest, 2)
    assert abs(halves[0].mean() - halves[1].mean()) < 0.2 * longest.mean()


def test_weights_say_how_often_a_pair_is_drawn() -> None:
    weights = np.repeat([2.0, 0.25, 1.5], [5000, 10_000, 5000])
    plans = [plan_epoch(SOURCES, TARGETS, weights, BatchConfig(), [0, epoch]) for epoch in range(2)]
    draws = [np.bincount(np.concatenate(plan.batches), minlength=len(weights)) for plan in plans]
    for times in draws:
        assert set(times[:5000].tolist()) == {2}
        assert set(times[5000:15_000].tolist()) == {0, 1}
        assert times[5000:15_000].mean() == pytest.approx(0.25, abs=0.02)
        assert set(times[15_000:].tolist()) == {1, 2}
    both = (draws[0][5000:15_000] * draws[1][5000:15_000]).mean()
    assert both == pytest.approx(1 / 16, abs=0.02), "each epoch draws afresh"


def test_no_epoch_is_empty() -> None:
    for epoch in range(20):
        few = np.full(3, 0.001)
        plan = plan_epoch(SOURCES[:3], TARGETS[:3], few, BatchConfig(), [0, epoch])
        assert len(plan.batches) >= 1
