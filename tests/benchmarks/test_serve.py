"""The service benchmark from its command line to its report."""

from pathlib import Path

from benchmarks.harness.texts import SizedText
from benchmarks.serve import Result, changed_answers, compare
from benchmarks.services.traffic import Traffic, Workload
from tests.benchmarks.commands import run


def test_services_answer_alike_under_load(tmp_path: Path, tiny_checkpoint: Path) -> None:
    text = tmp_path / "text.tsv"
    text.write_text("Good morning.\tBonjour.\nThank you.\tMerci.\nThe cat sleeps.\tLe chat dort.\n")
    options = ["--checkpoint", str(tiny_checkpoint), "--source-file", str(text), "--precision", "float32"]
    size = ["--concurrency", "3", "--workers", "1", "--seconds", "0.5", "--texts", "steady", "--null-backend"]
    results = run("serve", tmp_path / "report", *options, *size)["results"]
    showings = [result for result in results if result["kind"] == "service"]
    assert [each["service"] for each in showings] == [
        "dragoman, 1 worker",
        "fastapi + ctranslate2, 1 worker",
        "dragoman, nothing decoded",
        "fastapi echo",
    ]
    for each in showings:
        assert all(one["requests"] > 0 and one["failures"] == 0 for one in each["rounds"])
        assert each["changed"] == 0
    assert [(each["agreeing"], each["expected"]) for each in showings[:2]] == [(3, 3), (3, 3)]
    costs = [result for result in results if result["kind"] == "service footprint"]
    assert all(0 < cost["resident"] <= cost["peak"] for cost in costs)
    assert (tmp_path / "report" / "serve.png").stat().st_size > 0


LOAD = Workload(
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
        processor_share=1.0,
        generator_share=0.1,
    )


def result(*rounds: Traffic) -> Result:
    return Result(service="any", load=LOAD, rounds=rounds, changed=0, agreeing=1, expected=2)


def test_each_request_has_the_limit_of_its_own_text() -> None:
    assert [('"max_length": 5' in body, '"max_length": 80' in body) for body in LOAD.bodies()] == [
        (True, False),
        (False, True),
    ]
    alone = LOAD.alone()
    assert (alone.concurrency, alone.most, alone.warm_up_seconds) == (1, 2, 0.0)


def test_services_are_compared_round_by_round() -> None:
    ours, theirs = result(traffic(1), traffic(1)), result(traffic(2), traffic(4))
    assert tuple(compare(ours, theirs).values()) == (
        "3.00 (2.00–4.00)",
        "0.38 (0.25–0.50)",
        "0.38 (0.25–0.50)",
        "0.38 (0.25–0.50)",
    )
    no_short_ones = result(traffic(1, short=False), traffic(1, short=False))
    assert compare(no_short_ones, no_short_ones)["p99 of short ones"] == "–"
    assert no_short_ones.row()["p99 of short ones, ms"] == "–"


def test_an_answer_that_is_not_always_the_same_is_counted() -> None:
    assert changed_answers(ALONE, [traffic(1), traffic(1)]) == 0
    assert changed_answers(ALONE, [traffic(1), traffic(1, second="dos")]) == 1
    assert changed_answers({**ALONE, 0: frozenset({"un", "une"})}, [traffic(1)]) == 1
