"""The simulated queue has the capacity and the latency that it is given, and refuses what exceeds them."""

import pytest

from benchmarks.queue_simulation import Replica, simulate

REPLICA = Replica(alone=0.01, capacity=400)


def median(latencies: list[float]) -> float:
    return sorted(latencies)[len(latencies) // 2]


def test_a_sentence_alone_takes_its_time() -> None:
    seen = simulate(REPLICA, rate=2, seconds=200)
    assert sum(seen.latencies) / len(seen.latencies) == pytest.approx(REPLICA.alone, rel=0.1)
    assert seen.refused == 0


def test_overload_is_answered_at_the_capacity_and_the_rest_refused() -> None:
    seen = simulate(REPLICA, rate=1200, seconds=20)
    assert seen.in_time / 20 == pytest.approx(REPLICA.capacity, rel=0.05)
    assert seen.refused / (seen.refused + len(seen.latencies)) == pytest.approx(1 - 400 / 1200, abs=0.1)
    assert median(seen.latencies) == pytest.approx(REPLICA.most / REPLICA.capacity, rel=0.1)


def test_many_replicas_answer_what_one_cannot_and_sooner_at_the_same_share() -> None:
    one, four = (simulate(REPLICA, rate=320 * n, seconds=20, replicas=n) for n in (1, 4))
    assert (one.refused, four.refused) == (0, 0)
    assert len(four.latencies) > 3.5 * len(one.latencies)
    assert sorted(four.latencies)[-100] < sorted(one.latencies)[-25]
