from pathlib import Path

import pytest

from model.training.reporting.curves import write_curves

PNG = b"\x89PNG"
EVENTS = [
    *(
        {"kind": "update", "step": s, "loss": 5 / s, "cross_entropy": 4 / s, "learning_rate": s}
        for s in (1, 2, 3)
    ),
    {
        "kind": "validation",
        "step": 3,
        "cross_entropy": 2.0,
        "directions": {"en-fr": {"bleu": 20.0, "chrf": 40.0}, "fr-en": {"bleu": 21.0, "chrf": 41.0}},
    },
]


@pytest.mark.parametrize("events", [EVENTS, EVENTS[:3], []], ids=["all", "no validation", "nothing"])
def test_three_pictures_whatever_there_is_to_draw(tmp_path: Path, events: list[dict[str, object]]) -> None:
    files = write_curves(events, tmp_path / "plots")
    assert [file.name for file in files] == ["loss.png", "learning_rate.png", "scores.png"]
    assert all(file.read_bytes().startswith(PNG) for file in files)
