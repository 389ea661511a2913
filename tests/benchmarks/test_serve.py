"""The service benchmark from its command line to its report."""

from pathlib import Path

from tests.benchmarks.commands import run


def test_services_answer_alike_under_load(tmp_path: Path, tiny_checkpoint: Path) -> None:
    text = tmp_path / "text.tsv"
    text.write_text("Good morning.\tBonjour.\nThank you.\tMerci.\nThe cat sleeps.\tLe chat dort.\n")
    options = ["--checkpoint", str(tiny_checkpoint), "--source-file", str(text), "--precision", "float32"]
    size = ["--concurrency", "3", "--workers", "1", "--seconds", "0.5", "--texts", "steady"]
    results = run("serve", tmp_path / "report", *options, *size)["results"]
    showings = [result for result in results if result["kind"] == "service"]
    assert [each["service"] for each in showings] == [
        "dragoman, 1 worker",
        "fastapi + ctranslate2, 1 worker",
        "fastapi echo",
    ]
    for each in showings:
        assert all(one["requests"] > 0 and one["failures"] == 0 for one in each["rounds"])
        assert each["changed"] == 0
    assert [(each["agreeing"], each["expected"]) for each in showings[:2]] == [(3, 3), (3, 3)]
    costs = [result for result in results if result["kind"] == "service footprint"]
    assert all(0 < cost["resident"] <= cost["peak"] for cost in costs)
    assert (tmp_path / "report" / "serve.png").stat().st_size > 0
