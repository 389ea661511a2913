"""Drop the lines of a file that hold a sentence of other files, such as test text.

python checkpoints/recipe/without_overlap.py phrases.tsv --text DATA/tatoeba-en-fr/dev-test.tsv.gz -o new.tsv

Files are UTF-8, plain or gzip, with tab-separated columns. Two sentences are the same if their letters, marks
and digits are, after NFKC and case folding: case, punctuation and spaces do not count.
"""

import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from model.training.data.corpus import read_lines

_COUNTED = frozenset("LMN")  # the general categories of letters, marks and numbers


def sentence_key(sentence: str) -> str:
    """The letters, marks and digits of a sentence, without case; empty if it has none."""
    folded = unicodedata.normalize("NFKC", sentence).casefold()
    return "".join(character for character in folded if unicodedata.category(character)[0] in _COUNTED)


def sentence_keys(files: Iterable[Path]) -> set[str]:
    """The key of every cell of some files."""
    keys = {sentence_key(cell) for file in files for line in read_lines(file) for cell in line.split("\t")}
    return keys - {""}


def without_overlap(lines: Iterable[str], keys: set[str]) -> Iterator[str]:
    """The lines of which no cell has one of these keys."""
    return (line for line in lines if keys.isdisjoint(map(sentence_key, line.split("\t"))))


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--text",
    "texts",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    required=True,
    help="A file whose sentences FILE must not hold; may be repeated.",
)
@click.option("--header", is_flag=True, help="Keep the first line of FILE in any case.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The file to write; may be FILE.",
)
def main(file: Path, texts: tuple[Path, ...], header: bool, output: Path) -> None:
    """Write the lines of FILE that share no sentence with other files."""
    lines = list(read_lines(file))
    kept = [*lines[:header], *without_overlap(lines[header:], sentence_keys(texts))]
    output.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
    click.echo(f"{output}: {len(kept):,} of {len(lines):,} lines, {len(lines) - len(kept):,} dropped")


if __name__ == "__main__":
    main()
