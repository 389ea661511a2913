from pathlib import Path

import pytest

from model.training.report.log import RunLog, tensorboard_writer


def test_events_come_back_in_order_and_by_kind(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "log.jsonl")
    log.record("update", 1, {"loss": 2.5})
    log.record("validation", 1, {"text": "né"})
    log.record("update", 2, {"loss": 2.0})
    assert [event["loss"] for event in log.events("update")] == [2.5, 2.0]
    assert [event["kind"] for event in log.events()] == ["update", "validation", "update"]
    assert log.events("validation") == [{"kind": "validation", "step": 1, "text": "né"}]


@pytest.mark.parametrize(
    ("step", "validated_step", "kept"),
    [
        (2, 2, [("update", 2), ("validation", 2)]),
        (4, 2, [("update", 2), ("validation", 2), ("update", 4)]),  # saved before the validation of step 4
    ],
)
def test_rewinding_removes_what_will_be_repeated(
    tmp_path: Path, step: int, validated_step: int, kept: list[tuple[str, int]]
) -> None:
    log = RunLog(tmp_path / "log.jsonl")
    for each in (2, 4):
        log.record("update", each, {})
        log.record("validation", each, {})
    log.rewind(step, validated_step)
    log.record("update", 5, {})
    assert [(event["kind"], event["step"]) for event in log.events()] == [*kept, ("update", 5)]


def test_a_line_cut_short_by_a_kill_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    log = RunLog(file)
    log.record("update", 1, {})
    file.write_text(file.read_text() + '{"kind": "upd')
    log.rewind(5, validated_step=0)
    log.record("update", 2, {})
    assert [event["step"] for event in log.events()] == [1, 2]


def test_tensorboard_writes_event_files(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    writer = tensorboard_writer(tmp_path)
    log = RunLog(tmp_path / "log.jsonl", writer)
    log.record("update", 1, {"loss": 2.5})
    log.record("update", 2, {"loss": 2.0, "samples": ["a"]})
    log.close()
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    points = EventAccumulator(str(tmp_path)).Reload()
    assert points.Tags()["scalars"] == ["update/loss"]
    assert [(point.step, point.value) for point in points.Scalars("update/loss")] == [(1, 2.5), (2, 2.0)]
