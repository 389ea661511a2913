"""The decoding benchmark from its command line to its report."""

from pathlib import Path

from benchmarks.lineup import absent
from tests.benchmarks.commands import run

PEERS = ("hugging-face-float32", "ctranslate2-float32")
FIELD = ("dragoman-native-int8", "dragoman-torch-float32", *PEERS)


def test_all_engines_translate_alike_in_float32(tmp_path: Path) -> None:
    sizes = ["--batch-size", "2", "--sentences", "3", "--tokens", "6"]
    chosen = [option for name in FIELD for option in ("--engine", name)]
    results = run("decode", tmp_path, "--shape", "tiny", *sizes, *chosen)["results"]
    speeds = [result for result in results if result["kind"] == "speed"]
    present = [name for name in FIELD if name not in absent(FIELD)]
    assert len(speeds) == len(present) * 2
    for result in speeds:
        assert result["target_tokens"] == 3 * 6
        assert len(result["seconds"]) == 2
        if result["precision"] == "float32":
            assert result["same_translations"] == 3
    assert all(result["ratio"]["lowest"] > 0 for result in speeds if result["opponent"])
    footprints = [result for result in results if result["kind"] == "footprint"]
    assert [result["engine"] for result in footprints] == present
    assert all(0 < each["footprint"]["resident"] <= each["footprint"]["peak"] for each in footprints)
    assert (tmp_path / "decode.png").stat().st_size > 0


def test_a_checkpoint_translates_a_users_text_on_two_threads(tmp_path: Path, tiny_checkpoint: Path) -> None:
    text = tmp_path / "text.tsv"
    text.write_text("Good morning.\tBonjour.\n\nThank you.\tMerci.\nThe cat sleeps.\tLe chat dort.\n")
    options = ["--checkpoint", str(tiny_checkpoint), "--source-file", str(text), "--batch-size", "1"]
    chosen = [option for name in ("dragoman-torch-float32", *PEERS) for option in ("--engine", name)]
    searches = ["--search", "greedy", "--threads", "2"]
    results = run("decode", tmp_path / "report", *options, *chosen, *searches)["results"]
    speeds = [result for result in results if result["kind"] == "speed"]
    assert [result["sentences"] for result in speeds] == [3] * 3
    assert [result["threads"] for result in speeds] == [2] * 3
    exact = [result for result in speeds if result["precision"] == "float32"]
    assert [result["same_translations"] for result in exact] == [3] * 3
    assert [result["bleu"] for result in exact] == [exact[0]["bleu"]] * 3
    assert exact[0]["bleu"] > 99  # it has learnt these sentences by heart
