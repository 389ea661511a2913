from pathlib import Path

import pytest

from model.training.report.log import RunLog, tensorboard_writer


class Points:
    """Remembers what TensorBoard would draw."""

    def __init__(self) -> None:
        self.points: list[tuple[str, float, int]] = []
        self.flushed = 0
        self.is_closed = False

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        self.points.append((tag, scalar_value, global_step))

    def flush(self) -> None:
        self.flushed += 1

    def close(self) -> None:
        self.is_closed = True


def test_events_come_back_in_order_and_by_kind(tmp_path: Path) -> None:
    journal = RunLog(tmp_path / "log.jsonl")
    journal.record("update", 1, {"loss": 2.5})
    journal.record("validation", 1, {"text": "né"})
    journal.record("update", 2, {"loss": 2.0})
    assert [event["loss"] for event in journal.events("update")] == [2.5, 2.0]
    assert [event["kind"] for event in journal.events()] == ["update", "validation", "update"]
    assert journal.events("validation") == [{"kind": "validation", "step": 1, "text": "né"}]


def test_rewinding_forgets_what_will_happen_again(tmp_path: Path) -> None:
    journal = RunLog(tmp_path / "log.jsonl")
    for step in (1, 2, 3):
        journal.record("update", step, {})
    journal.rewind(2, validated_step=0)
    journal.record("update", 3, {"again": True})
    assert journal.events() == [
        {"kind": "update", "step": 1},
        {"kind": "update", "step": 2},
        {"kind": "update", "step": 3, "again": True},
    ]


def test_rewinding_forgets_a_validation_that_the_state_does_not_know(tmp_path: Path) -> None:
    """The state is saved before a validation, too."""
    journal = RunLog(tmp_path / "log.jsonl")
    for step in (2, 4):
        journal.record("update", step, {})
        journal.record("validation", step, {})
    journal.rewind(4, validated_step=2)
    assert [(event["kind"], event["step"]) for event in journal.events()] == [
        ("update", 2),
        ("validation", 2),
        ("update", 4),
    ]


def test_a_line_cut_short_by_a_kill_is_left_out(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    journal = RunLog(log)
    journal.record("update", 1, {})
    log.write_text(log.read_text() + '{"kind": "upd')
    journal.rewind(5, validated_step=0)
    journal.record("update", 2, {})
    assert [event["step"] for event in journal.events()] == [1, 2]


def test_an_empty_journal_has_no_events(tmp_path: Path) -> None:
    assert RunLog(tmp_path / "log.jsonl").events() == []


def test_numbers_become_points_of_curves(tmp_path: Path) -> None:
    points = Points()
    RunLog(tmp_path / "log.jsonl", points).record("update", 4, {"loss": 2.5, "samples": ["a"]})
    assert points.points == [("update/loss", 2.5, 4)]
    assert points.flushed == 1


def test_closing_lets_go_of_the_curves(tmp_path: Path) -> None:
    points = Points()
    RunLog(tmp_path / "log.jsonl", points).close()
    assert points.is_closed
    RunLog(tmp_path / "log.jsonl").close()


def test_tensorboard_writes_event_files(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    writer = tensorboard_writer(tmp_path)
    journal = RunLog(tmp_path / "log.jsonl", writer)
    journal.record("update", 1, {"loss": 2.5})
    journal.close()
    assert list(tmp_path.glob("events.out.tfevents.*"))
