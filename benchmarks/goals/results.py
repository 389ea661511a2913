"""What a model reached, beside its goals, as a report."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch

from benchmarks.goals.catalogue import Goal
from benchmarks.goals.scoring import Evaluation
from benchmarks.limited_run import Ending
from benchmarks.machine import describe_machine, load_average
from benchmarks.report import Report, Table

_COLUMNS = ("goal", "BLEU", "aim", "", "chrF", "sentences", "search", "best published")
_CURVE = ("step", "epoch", "cross entropy", "BLEU", "chrF")


def goals_report(
    model: str,
    evaluations: Sequence[tuple[Goal, Evaluation]],
    validations: Sequence[Mapping[str, Any]],
    ending: Ending,
    config: Mapping[str, object],
    load: float,
) -> Report:
    """The report.

    Args:
        model: Whose.
        evaluations: Of all its goals.
        validations: Of its run, as the journal has them.
        ending: Of its run.
        config: Plain values of its run, without places.
        load: Load average before.
    """
    signatures = dict.fromkeys(
        str(found[name]) for _, found in evaluations for name in ("bleu_signature", "chrf_signature")
    )
    return Report(
        name=f"goals-{model}",
        machine=describe_machine([torch.get_num_threads()]),
        loads=(load, load_average()),
        settings=config,
        notes=[
            f"Trained {ending.step:,} steps, {ending.tokens:,} tokens, {ending.minutes:.0f} minutes"
            f"{_on_gpu()}; ended by {ending.reason}.",
            "The search was chosen on validation text. " + "; ".join(f"`{each}`" for each in signatures),
        ],
        tables=[
            Table(title="Goals", columns=_COLUMNS, rows=[_cells(*each) for each in evaluations]),
            Table(title="Validation", columns=_CURVE, rows=[_point(each) for each in validations]),
        ],
        results=[
            *({"kind": "goal", **asdict(goal), "name": goal.name, **found} for goal, found in evaluations),
            *({"kind": "validation", **_plain(each)} for each in validations),
            {"kind": "ending", **asdict(ending)},
        ],
    )


def _cells(goal: Goal, found: Evaluation) -> tuple[str, ...]:
    aim, verdict = (
        ("–", "") if goal.bleu is None else (f"≥ {goal.bleu:g}", _verdict(found["bleu"], goal.bleu))
    )
    return (
        goal.name,
        f"{found['bleu']:.1f}",
        aim,
        verdict,
        f"{found['chrf']:.1f}",
        f"{found['sentences']:,}",
        f"beam {found['beam_size']}, penalty {found['length_penalty']:g}, {found['precision']}",
        goal.published or "–",
    )


def _verdict(bleu: float, aim: float) -> str:
    return "reached" if bleu >= aim else f"{aim - bleu:.1f} short"


def _point(event: Mapping[str, Any]) -> tuple[str, ...]:
    figures = (f"{event[name]:.2f}" for name in ("epoch", "cross_entropy", "bleu", "chrf"))
    return (f"{event['step']:,}", *figures)


def _plain(event: Mapping[str, Any]) -> dict[str, Any]:
    """Figures alone: samples are text of the corpus, which may not be passed on."""
    return {name: value for name, value in event.items() if isinstance(value, int | float)}


def _on_gpu() -> str:
    return f" on {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
