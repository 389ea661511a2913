"""`dragoman translate`: lines or a document, from a file or standard input."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, BinaryIO

import click
from tqdm import tqdm

from model.cli.decoding import decoding_options
from model.cli.languages import Languages, language_options
from model.cli.setup import Setup, setup_options
from model.errors import InputError

if TYPE_CHECKING:
    from model.card import Pair
    from model.request import DecodeOptions
    from model.translator import Translator

# Lines translated together: enough to fill batches of similar length, few enough to stream.
_LINES_AT_ONCE = 1024
_SAMPLE_LINES = 20


@click.command()
@click.argument("file", type=click.File("rb"), default="-")
@language_options
@click.option("--document", is_flag=True, help="Translate the input as one text rather than line by line.")
@click.option(
    "-o", "--output", type=click.File("wb"), default="-", help="Where to write; default standard output."
)
@setup_options
@decoding_options
def translate(
    file: BinaryIO,
    output: BinaryIO,
    document: bool,
    languages: Languages,
    setup: Setup,
    decoding: Mapping[str, object],
) -> None:
    r"""Translate FILE, or standard input.

    Every line of UTF-8 text becomes one line of translation, blank ones stay blank; large files
    are streamed. White space comes back as it was.

    \b
    Examples:
      echo "Good morning." | dragoman translate --source en --target fr
      dragoman translate -s en -t fr --beam-size 8 book.txt -o livre.txt
    """
    translator = setup.load()
    options = translator.card.options(decoding) if decoding else None
    if document:
        text = "".join(_lines(file))
        pair = languages.resolve(translator.card, text)
        output.write(_Job(translator, pair, options).document(text).encode())
        return
    lines = _lines(file)
    sample = list(islice(lines, 1 if file.isatty() else _SAMPLE_LINES))
    pair = languages.resolve(translator.card, "".join(sample))
    at_once = 1 if file.isatty() else _LINES_AT_ONCE
    for translated in _Job(translator, pair, options).lines(chain(sample, lines), at_once):
        output.write(translated.encode())
        output.flush()


@dataclass(frozen=True)
class _Job:
    """What stays the same from chunk to chunk."""

    translator: "Translator"
    pair: "Pair"
    options: "DecodeOptions | None"

    def document(self, text: str) -> str:
        """One text, with progress by sentences."""
        with _progress("sentences") as bar:
            return self._translate([text], ["the text"], bar)

    def lines(self, lines: Iterable[str], at_once: int) -> Iterator[str]:
        """Chunks of translated lines, as soon as they are there."""
        remaining = iter(lines)
        done = 0
        with _progress("lines") as bar:
            while chunk := list(islice(remaining, at_once)):
                fields = [f"line {number}" for number in range(done + 1, done + len(chunk) + 1)]
                yield self._translate(chunk, fields)
                done += len(chunk)
                bar.update(len(chunk))

    def _translate(self, texts: list[str], fields: list[str], bar: "tqdm[None] | None" = None) -> str:
        source, target = self.pair
        translations = self.translator.translate(
            texts,
            source=source,
            target=target,
            options=self.options,
            fields=fields,
            progress=None if bar is None else bar.update,
        )
        return "".join(translation.text for translation in translations)


def _lines(file: BinaryIO) -> Iterator[str]:
    """Lines with their ends, split at line feeds alone.

    Raises:
        InputError: If a line is not UTF-8, by its number.
    """
    for number, line in enumerate(file, start=1):
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"line {number} of the input must be UTF-8: {error.reason}") from error


def _progress(unit: str) -> "tqdm[None]":
    """A bar on standard error where that is a terminal, else nothing."""
    return tqdm(unit=f" {unit}", disable=not sys.stderr.isatty(), file=sys.stderr)
