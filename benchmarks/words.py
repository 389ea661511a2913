"""How many lone words and short phrases of a list come out as they stand there, in each direction.

python -m benchmarks.words checkpoints/everyday
python -m benchmarks.words runs/mine/checkpoints/best --list mine.tsv --languages en,fr --entries 1000
"""

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import click

from benchmarks.machine import describe_machine, load_average
from benchmarks.options import Benchmark
from benchmarks.recipes import ROOT
from benchmarks.report import Report, Table
from model.card import Pair
from model.training.data.corpus import read_lines
from model.translator import Translator

_EVERYDAY = ROOT / "examples" / "everyday.tsv"
_NOTE = "Capitals and final stops do not count; what any entry of the list has beside the same text is right."
Row = Sequence[str]


@click.command(cls=Benchmark)
@click.argument("checkpoint", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--list",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    default=_EVERYDAY,
    help="Tab-separated, a language a column; examples/everyday.tsv by default.",
)
@click.option(
    "--languages",
    default="en,fr,de,es,zh",
    show_default=True,
    help="A code for each of its columns, in their order.",
)
@click.option(
    "--entries",
    type=click.IntRange(min=1),
    default=400,
    show_default=True,
    help="How many are drawn at most.",
)
@click.option(
    "--most-words",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="In an entry's first column.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the draw.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for Markdown and JSON; without it, the table is only printed.",
)
def main(
    checkpoint: Path,
    file: Path,
    languages: str,
    entries: int,
    most_words: int,
    seed: int,
    output: Path | None,
) -> None:
    """Translate entries of a list with CHECKPOINT, and count those that come out right."""
    load_before = load_average()
    codes = languages.split(",")
    listed = listed_rows(file, codes)
    rows = drawn(listed, entries, most_words, seed)
    translator = Translator.load(checkpoint)
    shares = {
        pair: share_right(translator, rows, listed, pair, codes)
        for pair in shared_pairs(translator.card.pairs, codes)
    }
    report = Report(
        name="words",
        machine=describe_machine([]),
        loads=(load_before, load_average()),
        settings={
            "checkpoint": {
                "name": translator.card.name,
                "version": translator.card.version,
                "checksum": translator.checksum,
            },
            "precision": translator.precision,
            "list": file.name,
            "languages": codes,
            "entries": len(rows),
            "most_words": most_words,
            "seed": seed,
        },
        notes=[_NOTE],
        tables=[Table(title="Words", columns=("direction", "right"), rows=_cells(shares))],
        results=[
            {"kind": "words", "source": source, "target": target, "right": share}
            for (source, target), share in shares.items()
        ],
    )
    click.echo(report.markdown())
    if output is not None:
        report.write(output)


def listed_rows(file: Path, languages: Sequence[str]) -> Sequence[Row]:
    """All rows of a list.

    Raises:
        click.UsageError: If there is none, or one of them has fewer columns than there are languages.
    """
    rows = [line.split("\t") for line in read_lines(file)]
    if not rows:
        raise click.UsageError(
            f"--list must be a file with at least 1 entry, but is {file} with none instead"
        )
    for number, row in enumerate(rows, 1):
        if len(row) < len(languages):
            raise click.UsageError(
                f"line {number} of --list {file} must have at least {len(languages)} columns, one for "
                f"each of --languages {','.join(languages)}, but has {len(row)} instead"
            )
    return rows


def drawn(rows: Sequence[Row], entries: int, most_words: int, seed: int) -> Sequence[Row]:
    """Some of the rows whose first column has no more words than that.

    Raises:
        click.UsageError: If there is none.
    """
    fewest = min(len(row[0].split()) for row in rows)
    if fewest > most_words:
        raise click.UsageError(
            f"--most-words must be at least {fewest}, the fewest of an entry of --list, "
            f"but is {most_words} instead"
        )
    short = [row for row in rows if len(row[0].split()) <= most_words]
    return random.Random(seed).sample(short, min(entries, len(short)))


def shared_pairs(pairs: Sequence[Pair], languages: Sequence[str]) -> Sequence[Pair]:
    """The pairs whose languages are both among these.

    Raises:
        click.UsageError: If there is none.
    """
    shared = [(source, target) for source, target in pairs if source in languages and target in languages]
    if not shared:
        known = ", ".join(f"{source}→{target}" for source, target in pairs)
        raise click.UsageError(
            f"--languages must have both of at least 1 pair of the checkpoint ({known}), "
            f"but is {','.join(languages)} instead"
        )
    return shared


def share_right(
    translator: Translator,
    rows: Sequence[Row],
    listed: Sequence[Row],
    pair: Pair,
    languages: Sequence[str],
) -> float:
    """Share of rows whose translation stands beside the same text, there or anywhere in the list.

    Args:
        translator: Translates them.
        rows: The drawn ones.
        listed: All rows of the list.
        pair: From which language into which.
        languages: Of the columns.
    """
    source, target = (languages.index(code) for code in pair)
    expected: dict[str, set[str]] = defaultdict(set)
    for row in listed:
        expected[_core(row[source])].add(_core(row[target]))
    translations = translator.translate([row[source] for row in rows], source=pair[0], target=pair[1])
    return fmean(
        _core(each.text) in expected[_core(row[source])] for each, row in zip(translations, rows, strict=True)
    )


def _core(text: str) -> str:
    return text.casefold().strip(" .!?。！？¿¡")


def _cells(shares: Mapping[Pair, float]) -> Sequence[Sequence[str]]:
    cells = [(f"{source}→{target}", f"{share:.1%}") for (source, target), share in shares.items()]
    return [*cells, ("mean", f"{fmean(shares.values()):.1%}")]


if __name__ == "__main__":
    main()
