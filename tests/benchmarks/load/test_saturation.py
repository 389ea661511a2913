"""The saturation report, from a stream's samples to its files."""

import json
import math
from pathlib import Path

import pytest

from benchmarks.load.generator import Sample, Seen, Stream
from benchmarks.load.saturation import Point, saturation
from benchmarks.load.target import Target
from tests.app.remote import Live

STREAM = Stream(host="127.0.0.1", port=1, requests=[b""], rate=2.0, seconds=2.0)


def test_a_point_counts_from_when_a_request_was_meant_to_be_sent() -> None:
    seen = Seen(
        [
            Sample(0.0, 0.1, 0.3, 200, True),
            Sample(1.0, 1.1, 1.5, 200, True),
            Sample(1.5, 1.6, 2.5, 200, True),
            Sample(1.9, 1.9, 1.95, 503, True),
        ],
        lost=1,
        unsent=2,
        processor=0.5,
    )
    point = Point.of(STREAM, seen)
    assert point.sent == 2
    # What came when the stream was over says nothing of the rate.
    assert point.answered == 1
    assert point.refused == 0.25
    assert (point.p50, point.p99) == pytest.approx((0.5, 1.0))
    assert point.refusal_p50 == pytest.approx(0.05)
    assert point.late_p99 == pytest.approx(0.1)
    assert point.failed == 3
    assert point.generator_share == 0.25


def test_what_was_not_seen_has_a_dash() -> None:
    point = Point.of(STREAM, Seen([Sample(0.0, 0.1, 0.3, 200, True)]))
    assert math.isnan(point.refusal_p50)
    assert "–" in point.row().values()


def test_the_report_has_a_row_a_rate_and_a_plot(live: Live, tmp_path: Path) -> None:
    saturation(Target.of(live.url), connections=4, seconds=1.0, shares=(0.1, 0.5), output=tmp_path)
    report = json.loads((tmp_path / "saturation.json").read_text(), parse_constant=pytest.fail)
    first, second = report["results"]
    assert second["offered"] == pytest.approx(5 * first["offered"])
    assert (first["failed"], second["failed"]) == (0, 0)
    assert second["p50"] > 0
    assert len(report["tables"][0]["rows"]) == 2
    assert "Against the rate of arrival" in (tmp_path / "saturation.md").read_text()
    assert (tmp_path / "saturation.png").stat().st_size > 0
