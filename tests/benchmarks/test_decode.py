"""The decoding benchmark from its command line to its report."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.decode import Plan, main, measure, overview
from benchmarks.engines import ENGINES, EngineSpec, Ids, Translations, absent, opponent_of, reference_of
from model.decode_request import DecodeOptions
from tests.benchmarks.conftest import run

PEERS = ("hugging-face-float32", "ctranslate2-float32")
FIELD = ("dragoman-native-int8", "dragoman-torch-float32", *PEERS)


@pytest.mark.usefixtures("here")
def test_all_engines_translate_alike_in_float32(tmp_path: Path) -> None:
    sizes = ["--batch-size", "2", "--sentences", "3", "--tokens", "6"]
    chosen = [option for name in FIELD for option in ("--engine", name)]
    results = run(main, tmp_path, "--shape", "tiny", *sizes, *chosen, name="decode")["results"]
    speeds = [result for result in results if result["kind"] == "speed"]
    present = [name for name in FIELD if name not in absent(FIELD, "cpu")]
    assert len(speeds) == len(present) * 2
    for result in speeds:
        assert result["target_tokens"] == 3 * 6
        assert len(result["seconds"]) == 1
        if result["precision"] == "float32":
            assert result["same_translations"] == 3
    assert all(result["ratio"]["lowest"] > 0 for result in speeds if result["opponent"])


@pytest.mark.usefixtures("here")
def test_a_checkpoint_translates_a_users_text_on_two_threads(tmp_path: Path, tiny_checkpoint: Path) -> None:
    text = tmp_path / "text.tsv"
    text.write_text("Good morning.\tBonjour.\n\nThank you.\tMerci.\nThe cat sleeps.\tLe chat dort.\n")
    options = ["--checkpoint", str(tiny_checkpoint), "--source-file", str(text), "--batch-size", "1"]
    chosen = [option for name in ("dragoman-torch-float32", *PEERS) for option in ("--engine", name)]
    searches = ["--search", "greedy", "--threads", "2"]
    results = run(main, tmp_path / "report", *options, *chosen, *searches, name="text")["results"]
    speeds = [result for result in results if result["kind"] == "speed"]
    assert [result["sentences"] for result in speeds] == [3] * 3
    assert [result["plan"]["threads"] for result in speeds] == ["2"] * 3
    exact = [result for result in speeds if result["precision"] == "float32"]
    assert [result["same_translations"] for result in exact] == [3] * 3
    assert [result["bleu"] for result in exact] == [exact[0]["bleu"]] * 3
    assert exact[0]["bleu"] > 99  # it has learnt these sentences by heart


SOURCES = [(5, 0), (6, 0), (7, 0), (8, 0)]


def spec(name: str) -> EngineSpec:
    return ENGINES[name]


class Double:
    """Answers each source with itself, the first ones moved by 1; takes so many seconds."""

    def __init__(self, name: str, *, moved: int = 0, seconds: float = 1.0) -> None:
        self.spec = spec(name)
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
    assert (peer.row()["ours is … × this"] == "other translations: not comparable") == is_wrong


def test_int8_may_differ_and_is_compared_with_our_int8() -> None:
    doubles = [
        Double("dragoman-native-float32"),
        Double("dragoman-native-int8", moved=2),
        Double("ctranslate2-int8", moved=3, seconds=2),
    ]
    first, second, peer = measure(plan(score=40.0), doubles, rounds=3)
    assert (first.opponent, second.opponent) == (None, "dragoman-native-float32")
    assert (peer.opponent, peer.same_translations) == ("dragoman-native-int8", 1)
    assert not peer.is_wrong
    assert peer.ratio is not None
    assert peer.ratio.median == 2
    assert (peer.bleu, peer.target_tokens) == (40.0, 8)


def test_an_engine_of_ours_is_compared_with_the_first_in_its_precision_or_the_reference() -> None:
    native, torch = spec("dragoman-native-int8"), spec("dragoman-torch-int8")
    reference = spec("dragoman-native-float32")
    field = [native, reference, torch]
    assert reference_of(field) is reference
    assert opponent_of(torch, field) is native
    assert opponent_of(native, field) is reference
    assert opponent_of(reference, field) is None
    assert reference_of([native, torch]) is native


def test_the_overview_compares_our_fastest_precision_with_everybody() -> None:
    doubles = [
        Double("dragoman-native-float32", seconds=2),
        Double("dragoman-native-int8"),
        Double("hugging-face-float32", moved=4),
        Double("ctranslate2-int8", seconds=3),
    ]
    title, rows = overview(measure(plan(), doubles, rounds=2))
    assert "dragoman-native-int8" in title
    assert [list(row.values()) for row in rows] == [
        ["any", "greedy", "1", "2", "2.00 (2.00–2.00)", "–", "3.00 (3.00–3.00)"]
    ]
    assert list(rows[0])[4:] == ["dragoman-native-float32", "hugging-face-float32", "ctranslate2-int8"]
