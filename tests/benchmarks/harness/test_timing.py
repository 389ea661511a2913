"""Taking turns, and comparing within a round."""

from benchmarks.harness.timing import Ratio, percentile, speed_ratio, take_turns


def test_every_round_begins_with_another_participant() -> None:
    order: list[str] = []

    def note(name: str) -> float:
        order.append(name)
        return len(order)

    runs = {name: lambda current, name=name: note(f"{name}{current}") for name in "abc"}
    timings = take_turns(runs, rounds=3)
    assert order == ["a0", "b0", "c0", "b1", "c1", "a1", "c2", "a2", "b2"]
    assert [timings[name] for name in "abc"] == [[1, 6, 8], [2, 4, 9], [3, 5, 7]]


def test_a_ratio_is_the_median_of_the_rounds_ratios() -> None:
    assert speed_ratio([1, 2, 1], [2, 6, 1]) == Ratio(2, 1, 3)
    assert str(Ratio(2, 1, 3)) == "2.00 (1.00–3.00)"


def test_percentiles_are_values_that_were_seen() -> None:
    assert [percentile([1, 2, 3, 4], share) for share in (0, 0.5, 0.99)] == [1, 3, 4]
