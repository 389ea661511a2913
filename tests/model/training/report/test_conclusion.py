"""What a run leaves when it ends."""

import json
import logging
from pathlib import Path

import pytest

from model.training.report.report import conclude
from model.training.run_folder.folder import RunFolder


def test_a_report_that_cannot_be_written_costs_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The folder holds no log to report on, as after a disk was cleared by somebody."""
    with caplog.at_level(logging.ERROR):
        conclude(RunFolder(tmp_path), {"steps": 8}, report=True)
    assert json.loads((tmp_path / "provenance.json").read_text()) == {"steps": 8}
    assert "no report: " in caplog.text
    assert f"dragoman report {tmp_path}" in caplog.text


def test_whatever_drawing_may_raise_ends_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def draw(folder: RunFolder) -> Path:
        raise RuntimeError("a broken font")

    monkeypatch.setattr("model.training.report.report.write_report", draw)
    conclude(RunFolder(tmp_path), {}, report=True)
    assert "a broken font" in caplog.text
    assert f"dragoman report {tmp_path}" in caplog.text
