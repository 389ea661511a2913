from typing import Any

import pytest

from model.training.report.run_record import RunRecord, summarise

UPDATE = {"kind": "update", "step": 20, "epoch": 0.5, "tokens": 1200, "tokens_per_second": 50.0}
PROVENANCE: dict[str, Any] = {
    "steps": 20,
    "seconds": 90.0,
    "data": {
        "train": [{"languages": ["en", "fr"], "bidirectional": True, "files": [{"name": "a/b.tsv"}]}],
        "validation": [],
        "pairs_kept": 1000,
        "pairs_dropped": {"empty": 2, "too long": 3},
    },
}


def facts(events: list[dict[str, Any]], **values: Any) -> dict[str, str]:
    given = {"provenance": None, "has_ended": False, "first": None, "best": None}
    record = RunRecord(
        name="run", config={"network": {"preset": "tiny"}}, events=events, checkpoint=None, **given | values
    )
    return dict(summarise(record))


def test_a_run_that_has_only_begun() -> None:
    assert facts([]) == {"State": "under way, or stopped without a word", "Network": "tiny"}


def test_progress_and_speed() -> None:
    shown = facts([UPDATE, {**UPDATE, "step": 40, "tokens_per_second": 70.0, "seconds": 7380.0, "mfu": 0.5}])
    assert shown["Steps"] == "40 (0.50 epochs)"
    assert shown["Tokens seen"].startswith("1,200 ")
    assert shown["Time of training"] == "2 h 3 min"
    assert facts([{**UPDATE, "seconds": 7190.0}])["Time of training"] == "2 h 0 min"
    assert shown["Throughput"] == "60 tokens/s (median)"
    assert shown["Model FLOPs utilisation"] == "50.0% (median)"


@pytest.mark.parametrize(("end", "state"), [({"ended_by": "max_steps"}, "ended by max_steps"), ({}, "ended")])
def test_an_end_and_where_the_data_came_from(end: dict[str, str], state: str) -> None:
    shown = facts([UPDATE], provenance=PROVENANCE | end, has_ended=True)
    assert shown["State"] == state
    assert shown["Time of training"] == "1.5 min"
    assert shown["Trained on"] == "en↔fr a/b.tsv"
    assert "Validated on" not in shown
    assert shown["Pairs"] == "1,000 kept, 5 dropped in cleaning"
