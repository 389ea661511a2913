"""The service benchmark from its command line to its report."""

from pathlib import Path

from benchmarks.harness.texts import SizedText
from benchmarks.load.generator import Sample, Seen
from benchmarks.serve import Result, Workload, changed_answers, compare, main
from tests.benchmarks.conftest import run


def test_services_answer_alike_under_load(tmp_path: Path) -> None:
    options = ["--shape", "tiny", "--count", "3", "--precision", "float32"]
    size = ["--concurrency", "3", "--workers", "1", "--seconds", "0.1", "--texts", "steady"]
    showings = run(main, tmp_path, *options, *size, name="serve")["results"]
    assert [each["service"] for each in showings] == [
        "dragoman, 1 worker",
        "fastapi + ctranslate2, 1 worker",
        "dragoman, nothing decoded",
        "fastapi echo",
    ]
    for each in showings:
        assert min(each["rate"]) > 0
        assert min(each["cpu"]) > 0
        assert (each["failed"], each["changed"]) == (0, [])
    assert [each["agreeing"] for each in showings] == [1, 1, None, None]


def seen(*latencies: float, status: int = 200) -> Seen:
    """Answers to the first text, one after the other, each after so many seconds."""
    samples = [Sample(0, 0.0, 0.0, seconds, status, True) for seconds in latencies]
    return Seen(samples=samples, answers={0: {'{"translatedText": "un"}'}}, seconds=sum(latencies))


def workload(*tokens: int) -> Workload:
    texts = [SizedText("one", count, count) for count in tokens]
    return Workload(name="mixed", texts=texts, connections=2, seconds=1.0, pair=("en", "fr"), decoding={})


def result(load: Workload, *rounds: Seen) -> Result:
    made = Result(service="any", texts="mixed", connections=2)
    for each in rounds:
        made.add_round(each, load, alone={0: {"un"}}, cpu_seconds=1 + each.seconds * 2)
    return made


def test_each_request_has_the_limit_of_its_own_text() -> None:
    load = workload(5, 80)
    bodies = load.load(1).bodies
    assert ['"max_length": 5}' in body for body in bodies] == [True, False]
    assert ['"max_length": 80}' in body for body in bodies] == [False, True]
    alone = load.load(1, alone=True)
    assert (alone.connections, alone.most, alone.warm_up_seconds) == (1, 2, 0.0)


def test_services_are_compared_round_by_round() -> None:
    load = workload(5)
    ours, theirs = result(load, seen(1), seen(1)), result(load, seen(2), seen(4))
    *speed, cpu = compare(ours, theirs).values()
    assert speed == ["3.00 (2.00–4.00)", *["0.38 (0.25–0.50)"] * 3]
    # Each keeps two cores busy, in the warm-up too.
    assert cpu == "0.38 (0.25–0.50)"
    no_short_ones = result(workload(80), seen(1))
    assert compare(no_short_ones, no_short_ones)["p99 of short ones"] == "–"
    assert no_short_ones.row()["p99 of short ones, ms"] == "–"


def test_a_failure_of_ours_is_wrong() -> None:
    good, bad = (result(workload(5), seen(1, status=status)) for status in (200, 500))
    assert (good.failed, bad.failed) == (0, 1)
    for each in (good, bad):
        each.service = "dragoman, 1 worker"
    assert (good.is_wrong(is_exact=False), bad.is_wrong(is_exact=False)) == (False, True)


def test_an_answer_that_is_not_always_the_same_is_counted() -> None:
    alone = {0: {"un"}, 1: {"deux"}}
    assert changed_answers(alone, alone) == set()
    assert changed_answers(alone, {0: {"un"}, 1: {"dos"}}) == {1}
    assert changed_answers({0: {"un", "une"}}, {0: {"un", "une"}}) == {0}
