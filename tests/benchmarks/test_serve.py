"""The service benchmark from its command line to its report."""

from pathlib import Path

from benchmarks.harness.texts import SizedText
from benchmarks.serve import Result, Traffic, Workload, changed_answers, compare, main, translation
from tests.benchmarks.conftest import run


def test_services_answer_alike_under_load(tmp_path: Path) -> None:
    options = ["--shape", "tiny", "--count", "3", "--precision", "float32"]
    size = ["--concurrency", "3", "--workers", "1", "--seconds", "0.1", "--texts", "steady"]
    results = run(main, tmp_path, *options, *size, name="serve")["results"]
    showings = [result for result in results if result["kind"] == "service"]
    assert [each["service"] for each in showings] == [
        "dragoman, 1 worker",
        "fastapi + ctranslate2, 1 worker",
        "fastapi echo",
    ]
    for each in showings:
        assert all(
            one["requests"] > 0 and one["failures"] == 0 and one["cores"] > 0 for one in each["rounds"]
        )
        assert each["changed"] == 0
    assert [(each["agreeing"], each["expected"]) for each in showings[:2]] == [(3, 3), (3, 3)]


def traffic(slowness: float, *, short: bool = True) -> Traffic:
    return Traffic(
        requests=2,
        failures=0,
        rate=100 / slowness,
        cores=1.0,
        p50=0.01 * slowness,
        p99=0.02 * slowness,
        short_p99=0.01 * slowness if short else float("nan"),
    )


def result(*rounds: Traffic) -> Result:
    return Result(
        service="any", texts="mixed", concurrency=2, rounds=rounds, changed=0, agreeing=1, expected=2
    )


def test_each_request_has_the_limit_of_its_own_text() -> None:
    texts = [SizedText("one", 5, 5), SizedText("two", 80, 80)]
    load = Workload(name="mixed", texts=texts, concurrency=2, seconds=1.0, pair=("en", "fr"), decoding={})
    bodies = load.job(1).bodies
    assert ['"max_length": 5}' in body for body in bodies] == [True, False]
    assert ['"max_length": 80}' in body for body in bodies] == [False, True]
    alone = load.job(1, alone=True)
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
    alone = {0: {"un"}, 1: {"deux"}}
    assert changed_answers(alone, alone) == set()
    assert changed_answers(alone, {0: {"un"}, 1: {"dos"}}) == {1}
    assert changed_answers({0: {"un", "une"}}, {0: {"un", "une"}}) == {0}


def test_an_answer_without_a_translation_is_empty() -> None:
    bodies = ['{"translatedText": "un"}', "Internal Server Error", "[]", '{"translatedText": ["un"]}']
    assert [translation(body) for body in bodies] == ["un", "", "", ""]
