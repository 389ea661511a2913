from pathlib import Path
from typing import Any

import pytest

from model.training.report.charts import write_curves

PNG = b"\x89PNG"
UPDATES = [
    {"kind": "update", "step": s, "loss": 5 / s, "cross_entropy": 4 / s, "learning_rate": s, "mfu": 0.4}
    for s in (1, 2, 3)
]
VALIDATION = {
    "kind": "validation",
    "step": 3,
    "cross_entropy": 2.0,
    "directions": {"en-fr": {"bleu": 20.0, "chrf": 40.0}, "fr-en": {"bleu": 21.0, "chrf": 41.0}},
}
OF_UPDATES = {"Loss", "Learning rate", "Model FLOPs utilisation"}


@pytest.mark.parametrize(
    ("events", "titles"),
    [([*UPDATES, VALIDATION], OF_UPDATES | {"BLEU", "chrF"}), (UPDATES, OF_UPDATES), ([], set())],
    ids=["all", "no validation", "nothing"],
)
def test_a_picture_of_everything_there_is_to_draw(
    tmp_path: Path, events: list[dict[str, Any]], titles: set[str]
) -> None:
    pictures = write_curves(events, tmp_path / "curves")
    assert set(pictures) == titles
    assert all(file.read_bytes().startswith(PNG) for file in pictures.values())


def test_throughput_is_drawn_over_time_where_the_journal_has_the_time(tmp_path: Path) -> None:
    updates = [{**update, "tokens_per_second": 100.0, "seconds": 60.0} for update in UPDATES]
    assert {"Throughput", "Throughput over time"} <= set(write_curves(updates, tmp_path))
