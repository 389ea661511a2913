"""How many lone words and short phrases of a list come out as they stand there, in each direction.

python -m benchmarks.words checkpoints/everyday
python -m benchmarks.words runs/mine/checkpoints/best --list mine.tsv --languages en,fr --entries 1000

Entries in small letters are tried a second time with a first capital, as they stand on buttons.
"""

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import click

from benchmarks.machine import describe_machine, load_average
from benchmarks.options import Benchmark
from benchmarks.recipes import ROOT
from benchmarks.report import Report, Table
from model.checkpoint.card import Pair
from model.text.casing import upper
from model.training.data.corpus import read_lines
from model.translation.translator import Translator

_EVERYDAY = ROOT / "checkpoints" / "recipe" / "phrases.tsv"
_RARE = 20  # entries of which one is in small letters: its script has no capitals
_NOTE = "Capitals and final stops do not count; what any entry of the list has beside the same text is right."
Row = Sequence[str]


class Trial(NamedTuple):
    """What was typed, what the list has beside it, and whether that, or as good, came out."""

    source: str
    target: str
    is_right: bool


@click.command(cls=Benchmark)
@click.argument("checkpoint", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--list",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    default=_EVERYDAY,
    help="Tab-separated, a language a column; checkpoints/recipe/phrases.tsv by default.",
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
@click.option(
    "--missed",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for what came out wrong, as it was typed and as the list has it: en-fr.tsv and so on.",
)
def main(
    checkpoint: Path,
    file: Path,
    languages: str,
    entries: int,
    most_words: int,
    seed: int,
    output: Path | None,
    missed: Path | None,
) -> None:
    """Translate entries of a list with CHECKPOINT, and count those that come out right."""
    load_before = load_average()
    codes = languages.split(",")
    listed = listed_rows(file, codes)
    rows = drawn(listed, entries, most_words, seed)
    translator = Translator.load(checkpoint)
    trials = {
        pair: (
            tried(translator, typed(rows, pair, codes), listed, pair, codes),
            tried(translator, typed(rows, pair, codes, capitalised=True), listed, pair, codes),
        )
        for pair in shared_pairs(translator.card.pairs, codes)
    }
    shares = {pair: tuple(map(share_right, both)) for pair, both in trials.items()}
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
        tables=[Table(title="Words", columns=("direction", "right", "with a capital"), rows=_cells(shares))],
        results=[
            {"kind": "words", "source": source, "target": target, "right": right, "capitalised": capitalised}
            for (source, target), (right, capitalised) in shares.items()
        ],
    )
    click.echo(report.markdown())
    if output is not None:
        report.write(output)
    if missed is not None:
        missed.mkdir(parents=True, exist_ok=True)
        for pair, (as_listed, capitalised) in trials.items():
            write_missed(missed / f"{'-'.join(pair)}.tsv", [*as_listed, *capitalised])


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


def typed(
    rows: Sequence[Row], pair: Pair, languages: Sequence[str], *, capitalised: bool = False
) -> Sequence[tuple[str, str]]:
    """Sources and targets of rows, as they stand or, of those in small letters, with a first capital.

    Of a language where hardly one is in small letters, as in Chinese, none has a capital.

    Args:
        rows: Of the list.
        pair: From which language into which.
        languages: Of the columns.
        capitalised: Which of both.
    """
    source, target = (languages.index(code) for code in pair)
    sides = [(row[source], row[target]) for row in rows]
    if not capitalised:
        return sides
    changed = [
        (upper(text[:1], pair[0]) + text[1:], upper(translation[:1], pair[1]) + translation[1:])
        for text, translation in sides
        if text[:1].islower()
    ]
    return changed if len(changed) * _RARE >= len(sides) else []


def tried(
    translator: Translator,
    sides: Sequence[tuple[str, str]],
    listed: Sequence[Row],
    pair: Pair,
    languages: Sequence[str],
) -> Sequence[Trial]:
    """Translate, and compare with what stands beside the same text, there or anywhere in the list.

    Args:
        translator: Translates them.
        sides: As `typed` gives them.
        listed: All rows of the list.
        pair: From which language into which.
        languages: Of the columns.
    """
    source, target = (languages.index(code) for code in pair)
    expected: dict[str, set[str]] = defaultdict(set)
    for row in listed:
        expected[_core(row[source])].add(_core(row[target]))
    translations = translator.translate([text for text, _ in sides], source=pair[0], target=pair[1])
    return [
        Trial(text, wanted, _core(each.text) in expected[_core(text)])
        for (text, wanted), each in zip(sides, translations, strict=True)
    ]


def share_right(trials: Sequence[Trial]) -> float | None:
    """From 0 to 1; None where nothing was tried."""
    return fmean(trial.is_right for trial in trials) if trials else None


def write_missed(file: Path, trials: Sequence[Trial]) -> None:
    """Write sources and targets of what came out wrong, each once."""
    lines = dict.fromkeys(f"{trial.source}\t{trial.target}\n" for trial in trials if not trial.is_right)
    file.write_text("".join(lines), encoding="utf-8")


def _core(text: str) -> str:
    return text.casefold().strip(" .!?。！？¿¡")


def _cells(shares: Mapping[Pair, Sequence[float | None]]) -> Sequence[Sequence[str]]:
    means = [
        fmean(known) if (known := [share for share in form if share is not None]) else None
        for form in zip(*shares.values(), strict=True)
    ]
    named = {f"{source}→{target}": forms for (source, target), forms in shares.items()} | {"mean": means}
    return [
        (name, *("–" if share is None else f"{share:.1%}" for share in forms))
        for name, forms in named.items()
    ]


if __name__ == "__main__":
    main()
