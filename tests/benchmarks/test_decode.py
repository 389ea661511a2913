"""The decoding benchmark from its command line to its report."""

from pathlib import Path

from benchmarks.lineup import DEFAULT_ENGINES
from tests.benchmarks.commands import run


def test_all_engines_translate_alike_in_float32(tmp_path: Path) -> None:
    sizes = ["--batch-size", "1", "--batch-size", "3", "--sentences", "3", "--tokens", "6"]
    results = run("decode", tmp_path, "--shape", "tiny", *sizes)["results"]
    assert len(results) == len(DEFAULT_ENGINES) * 2 * 2
    for result in results:
        assert result["target_tokens"] == 3 * 6
        assert len(result["seconds"]) == 2
        if result["precision"] == "float32":
            assert result["same_translations"] == 3
    compared = [result for result in results if result["engine"] != "dragoman"]
    assert all(result["ratio"]["lowest"] > 0 for result in compared)


def test_a_checkpoint_translates_a_users_text(tmp_path: Path, tiny_checkpoint: Path) -> None:
    text = tmp_path / "text"
    text.write_text("Good morning.\n\nThank you.\nThe cat sleeps.\n")
    options = ["--checkpoint", str(tiny_checkpoint), "--text", str(text), "--batch-size", "2"]
    results = run("decode", tmp_path / "report", *options, "--search", "greedy")["results"]
    assert [result["precision"] for result in results] == ["float32", "int8"]
    assert {result["sentences"] for result in results} == {3}
    assert {result["engine"] for result in results} == {"dragoman"}
