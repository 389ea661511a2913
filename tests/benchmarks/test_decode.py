"""The decoding benchmark from its command line to its report."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.decode import Plan, folder_for, main, measure
from benchmarks.engines import ENGINES, Ids, Translations, choose
from model.checkpoint.folder import load_checkpoint
from model.decode_request import DecodeOptions
from model.errors import ConfigError
from tests.benchmarks.conftest import run

PEERS = ("hugging-face-float32", "ctranslate2-float32")
FIELD = ("dragoman-native-int8", "dragoman-torch-float32", *PEERS)


@pytest.mark.usefixtures("here")
def test_all_engines_translate_alike_in_float32(tmp_path: Path) -> None:
    sizes = ["--batch-size", "2", "--sentences", "3", "--tokens", "6"]
    chosen = [option for name in FIELD for option in ("--engine", name)]
    speeds = run(main, tmp_path, "--shape", "tiny", *sizes, *chosen, name="decode")["results"]
    assert len(speeds) == len(choose(FIELD, "cpu")[0]) * 2
    for result in speeds:
        assert len(result["seconds"]) == 1
        assert result["ratio"]["lowest"] > 0
        if result["engine"].endswith("float32"):
            assert result["same_translations"] == 3


@pytest.mark.usefixtures("here")
def test_a_checkpoint_translates_a_users_text_on_two_threads(tmp_path: Path, tiny_checkpoint: Path) -> None:
    text = tmp_path / "text.tsv"
    text.write_text("Good morning.\tBonjour.\n\nThank you.\tMerci.\nThe cat sleeps.\tLe chat dort.\n")
    options = ["--checkpoint", str(tiny_checkpoint), "--source-file", str(text), "--batch-size", "1"]
    chosen = [option for name in ("dragoman-torch-float32", *PEERS) for option in ("--engine", name)]
    searches = ["--search", "greedy", "--threads", "2"]
    speeds = run(main, tmp_path / "report", *options, *chosen, *searches, name="text")["results"]
    assert [result["sentences"] for result in speeds] == [3] * 3
    assert [result["plan"]["threads"] for result in speeds] == ["2"] * 3
    assert [result["same_translations"] for result in speeds] == [3] * 3
    assert [result["bleu"] for result in speeds] == [speeds[0]["bleu"]] * 3
    assert speeds[0]["bleu"] > 99  # it has learnt these sentences by heart


SOURCES = [(5, 0), (6, 0), (7, 0), (8, 0)]


class Double:
    """Answers each source with itself, the first ones moved by 1; takes so many seconds."""

    def __init__(self, name: str, *, moved: int = 0, seconds: float = 1.0) -> None:
        self.spec = ENGINES[name]
        self._moved, self._seconds = moved, seconds

    def decode(
        self, sources: Sequence[Ids], options: DecodeOptions, batch_size: int
    ) -> tuple[Translations, float]:
        shifts = [1] * self._moved + [0] * (len(sources) - self._moved)
        translations = [tuple(i + shift for i in ids) for ids, shift in zip(sources, shifts, strict=True)]
        return translations, self._seconds


def plan(least_same: float = 1.0, score: float | None = None) -> Plan:
    return Plan(
        network="any",
        search="greedy",
        options=DecodeOptions(strategy="greedy"),
        threads=1,
        batch_size=2,
        sources=SOURCES,
        least_same=least_same,
        score=lambda _translations: score,
    )


@pytest.mark.parametrize(("least_same", "is_wrong"), [(1.0, True), (0.75, False)])
def test_a_float32_peer_with_too_many_other_translations_is_not_compared(
    least_same: float, is_wrong: bool
) -> None:
    doubles = [Double("dragoman-native-float32"), Double("ctranslate2-float32", moved=1)]
    ours, peer = measure(plan(least_same), doubles, rounds=1)
    assert not ours.is_wrong
    assert (peer.is_wrong, peer.same_translations) == (is_wrong, 3)
    assert (peer.row()["dragoman-native-float32 is … × this"] == "other translations") == is_wrong


def test_int8_may_differ_and_our_fastest_precision_is_compared_with_all() -> None:
    doubles = [
        Double("dragoman-native-float32", seconds=3),
        Double("dragoman-native-int8", moved=2),
        Double("ctranslate2-int8", moved=3, seconds=2),
    ]
    results = measure(plan(score=40.0), doubles, rounds=3)
    assert [each.is_wrong for each in results] == [False] * 3
    assert [each.same_translations for each in results] == [4, 2, 1]
    assert [each.ratio.median for each in results] == [3, 1, 2]
    assert results[2].row()["dragoman-native-int8 is … × this"] == "2.00 (2.00–2.00)"
    assert results[2].row()["BLEU"] == "40.00"


def test_the_first_of_ours_is_the_reference_where_none_is_exact() -> None:
    doubles = [Double("dragoman-native-int8", moved=1), Double("dragoman-torch-int8", moved=1)]
    assert [each.same_translations for each in measure(plan(), doubles, rounds=1)] == [4, 4]


def test_a_peer_loads_an_export_and_ours_the_checkpoint(tiny_checkpoint: Path, tmp_path: Path) -> None:
    checkpoint = load_checkpoint(tiny_checkpoint)
    folders = {name: folder_for(spec, checkpoint, tmp_path) for name, spec in ENGINES.items()}
    assert folders["dragoman-torch-int8"] == tiny_checkpoint
    assert folders["ctranslate2-int8"] == tmp_path / "ctranslate2-int8"
    assert folders["hugging-face-float32"] == tmp_path / "pegasus-float32"


@pytest.mark.usefixtures("here")
def test_an_engine_whose_format_cannot_hold_the_network_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise ConfigError("positions", "'sinusoidal' for marian", "rotary")

    monkeypatch.setattr("benchmarks.decode.export_checkpoint", refuse)
    options = ["--shape", "tiny", "--tokens", "4", "--search", "greedy", "--batch-size", "2"]
    chosen = ["--engine", "dragoman-torch-float32", "--engine", "ctranslate2-float32"]
    report = run(main, tmp_path, *options, *chosen, name="decode")
    assert [each["engine"] for each in report["results"]] == ["dragoman-torch-float32"]
    assert any(note.startswith("Left out: ctranslate2-float32 (`positions`") for note in report["notes"])
