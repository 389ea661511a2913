"""Counts the words of the phrase list: the common words by which short texts are told apart in detection.

python checkpoints/recipe/common_words.py checkpoints/recipe/phrases.tsv -o model/text/common_words.txt
"""

import re
from collections import Counter
from pathlib import Path

import click

_LANGUAGES = ("en", "fr", "de", "es")  # columns of the list; Chinese is told apart by its script
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_MOST = 8000


@click.command()
@click.argument("phrases", type=click.Path(exists=True, path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path))
def main(phrases: Path, output: Path) -> None:
    """Write one line a language: its code and its words, the most frequent first."""
    rows = [line.split("\t") for line in phrases.read_text(encoding="utf-8").lower().splitlines()]
    lines = []
    for column, language in enumerate(_LANGUAGES):
        texts = {row[column].strip(" .!?¡¿") for row in rows}
        counts = Counter(word for text in sorted(texts) for word in _WORD.findall(text.replace("’", "'")))
        lines.append(" ".join([language, *(word for word, _ in counts.most_common(_MOST))]))
    output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
