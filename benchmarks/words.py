"""How many lone words and short phrases of a list come out as they stand there, in each direction.

python -m benchmarks.words checkpoints/everyday
python -m benchmarks.words runs/mine/checkpoints/best --list mine.tsv --languages en,fr --entries 1000
"""

import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import click

from benchmarks.machine import describe_machine, load_average
from benchmarks.recipes import ROOT
from benchmarks.report import Report, Table
from model.card import Pair
from model.translator import Translator

_EVERYDAY = ROOT / "examples" / "everyday.tsv"
Row = Sequence[str]


@click.command()
@click.argument("checkpoint", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--list",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    default=_EVERYDAY,
    help="Tab-separated, a language a column; examples/everyday.tsv by default.",
)
@click.option("--languages", default="en,fr,de,es,zh", show_default=True, help="Of its columns.")
@click.option(
    "--entries", type=click.IntRange(min=1), default=400, show_default=True, help="How many are drawn."
)
@click.option(
    "--most-words",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="In an entry's first column.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the draw.")
def main(checkpoint: Path, file: Path, languages: str, entries: int, most_words: int, seed: int) -> None:
    """Translate entries of a list with CHECKPOINT, and count those that come out right."""
    load_before = load_average()
    translator = Translator.load(checkpoint)
    codes = languages.split(",")
    rows = drawn(
        [line.split("\t") for line in file.read_text("utf-8").splitlines()], entries, most_words, seed
    )
    shares = {
        (source, target): share_right(translator, rows, (source, target), codes)
        for source, target in translator.card.pairs
        if source in codes and target in codes
    }
    cells = [(f"{source}→{target}", f"{share:.1%}") for (source, target), share in shares.items()]
    report = Report(
        name="words",
        machine=describe_machine([]),
        loads=(load_before, load_average()),
        settings={"entries": entries, "most_words": most_words, "seed": seed},
        notes=[
            "Capitals and final stops do not count; what any drawn entry has beside the same text is right."
        ],
        tables=[
            Table(
                title="Words",
                columns=("direction", "right"),
                rows=[*cells, ("mean", f"{fmean(shares.values()):.1%}")],
            )
        ],
        results=[],
    )
    click.echo(report.markdown())


def drawn(rows: Sequence[Row], entries: int, most_words: int, seed: int) -> Sequence[Row]:
    """Some of the rows whose first column has no more words than that."""
    short = [row for row in rows if len(row[0].split()) <= most_words]
    return random.Random(seed).sample(short, min(entries, len(short)))


def share_right(translator: Translator, rows: Sequence[Row], pair: Pair, languages: Sequence[str]) -> float:
    """Share of rows whose translation is one that stands beside the same text."""
    source, target = (languages.index(code) for code in pair)
    expected: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        expected[_core(row[source])].add(_core(row[target]))
    translations = translator.translate([row[source] for row in rows], source=pair[0], target=pair[1])
    return fmean(
        _core(each.text) in expected[_core(row[source])] for each, row in zip(translations, rows, strict=True)
    )


def _core(text: str) -> str:
    return text.casefold().strip(" .!?。！？¿¡")


if __name__ == "__main__":
    main()
