"""How many lone words and short phrases of a list come out as they stand there, in each direction.

python -m benchmarks.quality.words checkpoints/everyday
python -m benchmarks.quality.words runs/mine/checkpoints/best --list mine.tsv --languages en,fr --entries 1000

Entries in small letters are tried a second time with a first capital, as on buttons.
"""

import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import click

from benchmarks.harness.options import FILE, FOLDER, benchmark, counted, deliver
from benchmarks.harness.report import Report, Row
from benchmarks.quality.runs import ROOT
from model.checkpoint.card import Pair
from model.text.casing import upper
from model.training.data.corpus import read_lines
from model.translation.translator import Translator

_PHRASES = ROOT / "checkpoints" / "recipe" / "phrases.tsv"
# Of a language with fewer entries in small letters than one in this many, none has a capital, as in Chinese.
_RARE = 20
_NOTE = "Capitals and final stops do not count; what any entry of the list has beside the same text is right."
Entry = Sequence[str]


class Trial(NamedTuple):
    """What was typed, what the list has beside it, and whether that, or as good, came out."""

    source: str
    target: str
    is_right: bool


@benchmark
@click.argument("checkpoint", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--list", "file", type=FILE, default=_PHRASES, help="Tab-separated, a language a column.")
@click.option("--languages", default="en,fr,de,es,zh", help="A code for each of its columns, in their order.")
@counted("entries", 400, "Entries that are drawn at most.")
@counted("most-words", 2, "Words in an entry's first column at most.")
@counted("seed", 1, "Seed of the draw.")
@click.option("--output", type=FOLDER, help="Folder for Markdown and JSON.")
@click.option("--missed", type=FOLDER, help="Folder for what came out wrong, as typed and as listed.")
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
    codes = languages.split(",")
    listed = listed_rows(file, codes)
    rows = drawn(listed, entries, most_words, seed)
    translator = Translator.load(checkpoint)
    card = translator.card
    served = {"name": card.name, "version": card.version, "checksum": translator.checksum}
    settings = {"checkpoint": served, "precision": translator.precision, "list": file.name}
    counts = {"languages": codes, "entries": len(rows), "most_words": most_words, "seed": seed}
    report = Report("words", {**settings, **counts})
    report.notes.append(_NOTE)
    table: list[Row] = []
    results: list[dict[str, object]] = []
    known: dict[str, list[float]] = {"right": [], "capitalised": []}
    for pair in shared_pairs(card.pairs, codes):
        plain, capitalised = (
            tried(translator, typed(rows, pair, codes, capitalised=each), listed, pair, codes)
            for each in (False, True)
        )
        shares = {"right": share_right(plain), "capitalised": share_right(capitalised)}
        results.append({"source": pair[0], "target": pair[1], **shares})
        table.append(_row("→".join(pair), *shares.values()))
        for form, share in shares.items():
            known[form] += [] if share is None else [share]
        if missed is not None:
            missed.mkdir(parents=True, exist_ok=True)
            write_missed(missed / f"{'-'.join(pair)}.tsv", [*plain, *capitalised])
    means = [fmean(found) if found else None for found in known.values()]
    report.add("Words", [*table, _row("mean", *means)], "words", results)
    deliver(report, output)


def _row(direction: str, *shares: float | None) -> Row:
    right, capitalised = ("–" if share is None else f"{share:.1%}" for share in shares)
    return {"direction": direction, "right": right, "with a capital": capitalised}


def listed_rows(file: Path, languages: Sequence[str]) -> Sequence[Entry]:
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


def drawn(rows: Sequence[Entry], entries: int, most_words: int, seed: int) -> Sequence[Entry]:
    """Some of the rows whose first column has at most that many words.

    Raises:
        click.UsageError: If there is none.
    """
    short = [row for row in rows if len(row[0].split()) <= most_words]
    if not short:
        fewest = min(len(row[0].split()) for row in rows)
        raise click.UsageError(
            f"--most-words must be at least {fewest}, the fewest of an entry of --list, "
            f"but is {most_words} instead"
        )
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
    rows: Sequence[Entry], pair: Pair, languages: Sequence[str], *, capitalised: bool = False
) -> Sequence[tuple[str, str]]:
    """Sources and targets of rows, as they stand or, of those in small letters, with a first capital."""
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
    listed: Sequence[Entry],
    pair: Pair,
    languages: Sequence[str],
) -> Sequence[Trial]:
    """Translate, and compare with what stands beside the same text anywhere in the list."""
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


if __name__ == "__main__":
    main()
