"""What is made of the answers that a service gave."""

from benchmarks.service import Showing, changed_answers, compare
from benchmarks.texts import SizedText
from benchmarks.traffic import Load, Traffic

LOAD = Load(
    name="mixed",
    texts=[SizedText("one", 5, 5), SizedText("two", 80, 80)],
    concurrency=2,
    seconds=1.0,
    warm_up_seconds=0.0,
    source="en",
    target="fr",
    decoding={"strategy": "greedy"},
)
ALONE = {0: frozenset({"un"}), 1: frozenset({"deux"})}


def traffic(slowness: float, *, second: str = "deux", short: bool = True) -> Traffic:
    return Traffic(
        rate=100 / slowness,
        latencies=[0.01 * slowness, 0.02 * slowness],
        short_latencies=[0.01 * slowness] if short else [],
        failures=0,
        answers={0: frozenset({"un"}), 1: frozenset({second})},
        processor=1.0,
        processor_share=1.0,
        generator_share=0.1,
    )


def showing(*rounds: Traffic) -> Showing:
    return Showing(service="any", load=LOAD, rounds=rounds, changed=0, agreeing=1, expected=2)


def test_each_request_has_the_limit_of_its_own_text() -> None:
    assert [('"max_length": 5' in body, '"max_length": 80' in body) for body in LOAD.bodies()] == [
        (True, False),
        (False, True),
    ]
    alone = LOAD.alone()
    assert (alone.concurrency, alone.most, alone.warm_up_seconds) == (1, 2, 0.0)


def test_services_are_compared_round_by_round() -> None:
    ours, theirs = showing(traffic(1), traffic(1)), showing(traffic(2), traffic(4))
    assert compare(ours, theirs) == (
        "3.00 (2.00–4.00)",
        "0.38 (0.25–0.50)",
        "0.38 (0.25–0.50)",
        "0.38 (0.25–0.50)",
    )
    no_short_ones = showing(traffic(1, short=False), traffic(1, short=False))
    assert compare(no_short_ones, no_short_ones)[-1] == "–"
    assert no_short_ones.cells()[6] == "–"


def test_an_answer_that_is_not_always_the_same_is_counted() -> None:
    assert changed_answers(ALONE, [traffic(1), traffic(1)]) == 0
    assert changed_answers(ALONE, [traffic(1), traffic(1, second="dos")]) == 1
    assert changed_answers({**ALONE, 0: frozenset({"un", "une"})}, [traffic(1)]) == 1
