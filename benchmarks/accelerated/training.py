"""Training steps on the device: ours, ours compiled, and Hugging Face's, with their share of the peak."""

from dataclasses import asdict
from typing import cast

from benchmarks.accelerated.plan import Finding, Plan
from benchmarks.pairs import pair_batches, usual_lengths
from benchmarks.report import Table
from benchmarks.shapes import untrained_network
from benchmarks.training_race import COLUMNS, WARM_UP, hold, line_up
from model.training.config.run import Precision


def race_steps(plan: Plan) -> Finding:
    """Updates on the same batches, taking turns."""
    precision = cast(Precision, str(plan.precision).removeprefix("torch."))
    lengths = usual_lengths(plan.seed)
    # Compiling goes by shape, which differs from batch to batch: each round warms up on its own.
    count = WARM_UP + plan.rounds
    pairs = pair_batches(plan.config, count, plan.training_tokens, plan.seed, lengths)
    trainers = line_up(
        untrained_network(plan.config, plan.seed),
        [precision],
        plan.device,
        compiled=plan.device.type == "cuda",
    )
    finishes = hold(plan.shape, plan.config, trainers, pairs.batches, device=plan.device, clock="wall")
    return Finding(
        tables=[
            Table(
                title=f"Training step, {plan.training_tokens} tokens",
                columns=COLUMNS,
                rows=[finish.cells("wall") for finish in finishes],
            )
        ],
        results=[{"kind": "training step", **asdict(finish)} for finish in finishes],
        notes=[f"Padding of training batches: {pairs.padding_share:.1%} of all positions."],
        is_wrong=any(finish.is_wrong for finish in finishes),
    )
