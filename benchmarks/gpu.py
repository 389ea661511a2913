"""What a GPU reaches: correctness first, then speed, training, peers and a profile, in one call of minutes.

python -m benchmarks.gpu --output runs/gpu --data FOLDER
python -m benchmarks.gpu --device cpu --quick --output runs/gpu
"""

import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

import click
import torch

from benchmarks.accelerated import correctness, goal, peers, profile, speed, training
from benchmarks.accelerated.plan import Finding, Plan
from benchmarks.machine import describe_machine, load_average
from benchmarks.report import Report

_PARTS: Mapping[str, Callable[[Plan], Finding]] = {
    "correctness": correctness.check,
    "loop": speed.measure_loops,
    "latency": speed.measure_latency,
    "training": training.race_steps,
    "goal": goal.probe_goal,
    "peers": peers.race,
    "profile": profile.find_hot_spots,
}
_FULL: dict[str, object] = {
    "shape": "base",
    "slots": (32, 128, 256, 512),
    "sentences": 128,
    "source_tokens": 24,
    "tokens": 64,
    "batch_size": 32,
    "training_tokens": 16384,
    "probe_steps": 500,
    "rounds": 5,
}
_QUICK: dict[str, object] = {
    "shape": "tiny",
    "slots": (4, 8),
    "sentences": 8,
    "source_tokens": 8,
    "tokens": 8,
    "batch_size": 4,
    "training_tokens": 300,
    "probe_steps": 20,
    "rounds": 1,
}


@click.command()
@click.option("--device", default="cuda", show_default=True, help="Where to measure.")
@click.option("--quick", is_flag=True, help="A tiny network and little work: whether it runs at all.")
@click.option(
    "--precision",
    default="bfloat16",
    show_default=True,
    type=click.Choice(["float32", "bfloat16", "float16"]),
    help="What is timed.",
)
@click.option(
    "--part",
    "parts",
    multiple=True,
    type=click.Choice(list(_PARTS)),
    default=list(_PARTS),
    help="What to measure; all of it by default.",
)
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the corpora, for the probe of a goal; without it, bundled phrases.",
)
@click.option("--seconds", default=540, show_default=True, help="After so long no further part begins.")
@click.option("--seed", default=1, show_default=True, help="Of all that is random.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for Markdown and JSON, which are written after every part.",
)
def main(
    device: str,
    quick: bool,
    precision: str,
    parts: tuple[str, ...],
    data: Path | None,
    seconds: int,
    seed: int,
    output: Path | None,
) -> None:
    """Measure a GPU part by part; what one part meets does not stop the next.

    Exit status 1 if a part failed, or float32 translations differ that must not.
    """
    size = _QUICK if quick else _FULL
    plan = Plan(
        device=torch.device(device),
        precision=getattr(torch, precision),
        seed=seed,
        data=data,
        **size,  # type: ignore[arg-type]
    )
    load, deadline = load_average(), time.monotonic() + seconds
    findings: dict[str, Finding] = {}
    failures: list[str] = []
    for name in parts:
        try:
            if time.monotonic() < deadline:
                findings[name] = _PARTS[name](plan)
            else:
                failures.append(f"Not measured for want of time: {name}.")
        except Exception:  # time on a GPU is short: the other parts must still run
            failures.append(f"Failed: {name}\n\n```\n{traceback.format_exc()}```")
        report = _report(plan, findings, failures, load)
        if output is not None:
            report.write(output)
    click.echo(report.markdown())
    if failures or any(finding.is_wrong for finding in findings.values()):
        raise click.exceptions.Exit(1)


def _report(plan: Plan, findings: Mapping[str, Finding], failures: list[str], load: float) -> Report:
    return Report(
        name="gpu",
        machine=describe_machine([torch.get_num_threads()]),
        loads=(load, load_average()),
        settings={**asdict(plan), "device": str(plan.device), "precision": str(plan.precision)},
        notes=[*failures, *(note for finding in findings.values() for note in finding.notes)],
        tables=[table for finding in findings.values() for table in finding.tables],
        results=[result for finding in findings.values() for result in finding.results],
    )


if __name__ == "__main__":
    main()
