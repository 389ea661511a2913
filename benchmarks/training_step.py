"""How fast weights are updated: our training step beside that of Hugging Face, on the same batches.

python -m benchmarks.training_step --output runs/bench
python -m benchmarks.training_step --corpus tatoeba-en-fr/train.tsv.gz --shape base --device cuda
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click
import torch

from benchmarks.machine import describe_machine, load_average, pin
from benchmarks.options import Benchmark, Timing, counted, several, timing_options
from benchmarks.pairs import corpus_lengths, pair_batches, usual_lengths
from benchmarks.report import Report, Table
from benchmarks.shapes import SHAPES, untrained_network
from benchmarks.training_race import COLUMNS, WARM_UP, Finish, hold, line_up
from model.training.config.run import Precision
from model.training.device import prepare_processor

_SAME_WORK = (
    "Same initial weights, batches, dropout rates, AdamW, clipping and process settings for both; ours also "
    "smooths its labels. Tokens are source and target tokens, without padding. The share of the peak is what "
    "the matrix products of these tokens take at least, over what a large product reaches here."
)


@click.command(cls=Benchmark)
@several("shape", "shapes", tuple(SHAPES), ["small"], "Random networks.")
@several("precision", "precisions", ("float32", "bfloat16"), ["float32", "bfloat16"], "Of matrix products.")
@counted("max-tokens", 4096, "Of a batch, padding charged.")
@counted("threads", 2, "Numeric threads, on as many cores.")
@click.option("--device", default="cpu", show_default=True, help="Where to compute: cpu or cuda.")
@click.option("--compile", "compiled", is_flag=True, help="Race our step under torch.compile as well.")
@click.option(
    "--corpus",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Tab-separated pairs whose lengths the batches have, in pieces of the embedded tokenizer; "
    "by default such as news and talks have.",
)
@timing_options
def main(
    shapes: Sequence[str],
    precisions: Sequence[Precision],
    max_tokens: int,
    threads: int,
    device: str,
    compiled: bool,
    corpus: Path | None,
    timing: Timing,
) -> None:
    """Race training steps over the same weights and batches; the first loss is compared first.

    Exit status 1 if a trainer's loss is not ours.
    """
    load_before, place = load_average(), torch.device(device)
    if place.type == "cpu":
        pin(threads)
    prepare_processor(threads)
    finishes: list[Finish] = []
    notes = [timing.note(), _SAME_WORK]
    lengths = usual_lengths(timing.seed) if corpus is None else corpus_lengths(corpus)
    for shape in shapes:
        config = SHAPES[shape]
        pairs = pair_batches(config, WARM_UP + timing.rounds, max_tokens, timing.seed, lengths)
        trainers = line_up(untrained_network(config, timing.seed), precisions, place, compiled=compiled)
        finishes += hold(shape, config, trainers, pairs.batches, device=place, clock=timing.clock)
        notes.append(
            f"Padding of {shape}, for both: {pairs.padding_share:.1%} of all positions; it would be "
            f"{pairs.unsorted_padding_share:.0%} if pairs met in random order, as in a plain data loader."
        )
    report = Report(
        name=timing.name or "training_step",
        machine=describe_machine([threads]),
        loads=(load_before, load_average()),
        settings={"max_tokens": max_tokens, "device": device, "corpus": corpus, "timing": timing},
        notes=notes,
        tables=[
            Table(
                title="Training step",
                columns=COLUMNS,
                rows=[finish.cells(timing.clock) for finish in finishes],
            )
        ],
        results=[{"kind": "training step", **asdict(finish)} for finish in finishes],
    )
    timing.deliver(report)
    if any(finish.is_wrong for finish in finishes):
        raise click.exceptions.Exit(1)


if __name__ == "__main__":
    main()
