"""`dragoman translate`: translates lines, a document or a corpus, from a file or standard input."""

import io
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, BinaryIO, cast

import click

from model.cli.main import Misuse
from model.cli.options import (
    Languages,
    Setup,
    decoding_options,
    language_options,
    only_checkpoint,
    progress_bar,
    setup_options,
)
from model.cli.output_files import STANDARD, HashedLines, ResumableOutput, is_file_of, written
from model.text.formats.formats import FORMATTED, read_file, suffix_of
from model.text.glossary import read_entries
from model.translation.text_lines import LineForm, read_lines

if TYPE_CHECKING:
    from model.checkpoint.card import Pair
    from model.decode_request import DecodeOptions
    from model.translation.corpus import CorpusJob
    from model.translation.translator import Translator

# Lines that are translated together: enough for batches of similar length, few enough to stream.
_LINES_AT_ONCE = 1024
_SAMPLE_LINES = 20


class _FileOrCorpus(click.File):
    """A file to read, or the name of a folder or URL, whose files make a corpus."""

    name = "file"

    def convert(  # type: ignore[override]
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> BinaryIO | str:
        """Returns an open file, or the name of a corpus."""
        if "://" in value or Path(value).is_dir():
            return value
        return cast(BinaryIO, super().convert(value, param, ctx))


@click.command()
@click.argument("file", type=_FileOrCorpus("rb"), default=STANDARD)
@language_options
@click.option("--document", is_flag=True, help="Translate the input as one text rather than line by line.")
@click.option(
    "-o",
    "--output",
    default=STANDARD,
    metavar="OUTPUT",
    help="File to write, compressed if its name ends in .gz; not FILE; default standard output. If FILE is a "
    "corpus, the folder or URL for its files.",
)
@click.option(
    "--column", type=click.IntRange(min=1), help="Translate only this tab-separated column of each line."
)
@click.option(
    "--pairs", is_flag=True, help="Write source and translation, tab-separated: a corpus to train on."
)
@click.option(
    "--skip-long",
    is_flag=True,
    help="Leave lines over the checkpoint's limit empty; without it they are an error.",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Write OUTPUT.part, renamed when complete, and continue one that exists.",
)
@click.option(
    "--on",
    metavar="ADDRESS",
    help="Translate a corpus on a Ray cluster: ray://HOST:PORT, auto on one of its machines, or local.",
)
@click.option(
    "--text-column",
    default="text",
    show_default=True,
    metavar="NAME",
    help="The column of a corpus' Parquet files that is translated.",
)
@click.option(
    "--glossary",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="UTF-8 text with a term, a tab and its translation in each line, which translations must contain.",
)
@click.option(
    "--progress/--no-progress",
    default=None,
    help="Show sentences per second, and lines; by default only on a terminal.",
)
@setup_options
@decoding_options
def translate(
    file: BinaryIO | str,
    output: str,
    document: bool,
    column: int | None,
    pairs: bool,
    skip_long: bool,
    resume: bool,
    on: str | None,
    text_column: str,
    glossary: Path | None,
    progress: bool | None,
    languages: Languages,
    setup: Setup,
    decoding: Mapping[str, object],
) -> None:
    r"""Translate FILE, or standard input.

    Every line of UTF-8 text becomes one line of translation, and blank lines stay blank. White space
    is kept. Large files are streamed. Input in gzip format is decompressed, and an output whose name
    ends in .gz is compressed.

    A FILE whose name ends in .docx, .pptx, .odt, .odp, .epub, .html, .htm, .md, .srt, .vtt, .xliff or
    .xlf becomes a file of the same format, in which layout, links and code stay.

    \b
    Examples:
      echo "Good morning." | dragoman translate --source en --target fr
      dragoman translate -s en -t fr --beam-size 8 book.txt -o livre.txt
      dragoman translate -s en -t fr letter.docx -o lettre.docx
      dragoman translate -s en -t fr mono.en.gz --pairs --skip-long --resume -o pairs.tsv.gz
      dragoman translate -s en -t fr texts/ -o translated/

    A folder is a corpus: each of its files (text, gzip or Parquet) gets a translation of the same name, an
    interrupted run is continued, and report.json names the lines that were left empty.
    """
    form = LineForm(column, pairs)
    if isinstance(file, str):
        if document or output == STANDARD:
            raise Misuse("a corpus needs --output, and does not go with --document")
        if glossary is not None:
            raise Misuse("--glossary does not go with a corpus")
        corpus_job = _corpus_job(languages, setup, decoding, form, skips_long=skip_long)
        _translate_corpus(file, output, text_column, on, corpus_job)
        return
    if on is not None:
        raise Misuse("--on needs FILE to be a folder or a URL")
    if output != STANDARD and Path(output).is_dir():
        raise Misuse(f"--output must be a file, but {output} is a folder")
    if document and (pairs or column or resume or skip_long):
        raise Misuse("--document goes with none of --column, --pairs, --skip-long and --resume")
    if resume and output == STANDARD:
        raise Misuse("--resume needs --output")
    if output != STANDARD and is_file_of(file, Path(output)):
        raise Misuse(f"--output must be another file than the input, but is {output}")
    unfinished = ResumableOutput(Path(output)) if resume else None
    if unfinished is not None and unfinished.is_complete:
        click.echo(f"{output} is complete already", err=True)
        return
    # Standard input may have no name.
    suffix = PurePath(str(getattr(file, "name", ""))).suffix.lower()
    is_formatted = suffix in FORMATTED and not (document or pairs or column or resume or skip_long)
    if is_formatted and output != STANDARD and PurePath(output).suffix.lower() != suffix:
        raise Misuse(f"--output must end in {suffix}, as FILE does, but is {output}")
    entries = None if glossary is None else _entries(glossary)
    translator = setup.load()
    options = translator.card.options(decoding) if decoding else None
    if is_formatted:
        _translate_file(translator, Path(file.name), output, languages, options, entries, progress)
        return
    lines = read_lines(file)
    sample = list(lines if document else islice(lines, 1 if file.isatty() else _SAMPLE_LINES))
    pair = languages.resolve(
        translator.card, "".join(form.source(line, f"line {n}") for n, line in enumerate(sample, 1))
    )
    job = _Job(translator, pair, options, form, skip_long, progress, entries)
    hashed = HashedLines(chain(sample, lines))
    done = 0 if unfinished is None else unfinished.resume(_command(job, setup, decoding), hashed)
    with written(output) if unfinished is None else unfinished.appended() as target:
        at_once = 1 if file.isatty() else _LINES_AT_ONCE
        chunks = [job.document("".join(sample))] if document else job.lines(hashed, done, at_once)
        for translated in chunks:
            target.write(translated.encode())
            target.flush()
            if unfinished is not None:
                unfinished.record(hashed.progress)
    if job.too_long:
        click.echo(f"{_counted(job.too_long)} over the limit left empty", err=True)
    if job.cut:
        those = "sentences" if document else _counted(job.cut)
        click.echo(f"{those} ended by the length limit", err=True)
    _tell_missing(job.missing)


def _corpus_job(
    languages: Languages, setup: Setup, decoding: Mapping[str, object], form: LineForm, *, skips_long: bool
) -> "CorpusJob":
    from model.checkpoint.folder import list_checkpoint
    from model.translation.corpus import CorpusJob

    if languages.source is None or languages.source == "auto":
        raise Misuse("a corpus needs --source")
    folder = only_checkpoint(setup.checkpoint).resolve()
    card = list_checkpoint(folder).card
    return CorpusJob(
        checkpoint=str(folder),
        pair=languages.resolve(card, ""),
        form=form,
        options=card.options(decoding) if decoding else None,
        skips_long=skips_long,
        loading=setup.loading,
    )


def _translate_corpus(
    source: str, output: str, text_column: str, address: str | None, job: "CorpusJob"
) -> None:
    """Translates a folder or an object store's prefix, here or on a Ray cluster."""
    from model.translation.corpus import Corpus, translate_corpus

    corpus = Corpus(source, output, text_column)
    if address is None:
        report = translate_corpus(corpus, job)
    else:
        try:
            from model.translation.ray_corpus import translate_on_ray
        except ModuleNotFoundError:
            raise Misuse("--on needs the extra `ray`") from None
        try:
            report = translate_on_ray(corpus, job, address)
        except ConnectionError as error:
            reason = (str(error).splitlines() or [""])[0]
            raise Misuse(f"--on must be a Ray cluster that runs, but is {address}: {reason}") from error
    click.echo("{files} files, {lines} lines, {lines_per_second} lines a second".format_map(report), err=True)


def _translate_file(
    translator: "Translator",
    file: Path,
    output: str,
    languages: Languages,
    options: "DecodeOptions | None",
    glossary: Mapping[str, str] | None,
    shows_progress: bool | None,
) -> None:
    """Translates a file whose format is kept."""
    sample = read_file(suffix_of(file.name), file.read_bytes(), "").sample
    source, target = languages.resolve(translator.card, sample)
    with progress_bar("sentences", wanted=shows_progress) as bar:
        buffer = io.BytesIO()
        translations = translator.translate_file(
            file,
            buffer,
            source=source,
            target=target,
            options=options,
            glossary=glossary,
            progress=bar.update,
        )
    with written(output) as result:
        result.write(buffer.getvalue())
    if not all(translation.is_finished for translation in translations):
        click.echo("sentences ended by the length limit", err=True)
    _tell_missing({term.source for translation in translations for term in translation.missing_terms})


@dataclass(frozen=True)
class _Job:
    """How every chunk of the input is translated.

    Attributes:
        too_long: Names of the lines that were left empty: `line N`.
        glossary: The translation that each term must have.
        cut: Names of the lines whose translation its length limit ended.
        missing: Terms that a translation lacks.
    """

    translator: "Translator"
    pair: "Pair"
    options: "DecodeOptions | None"
    form: LineForm
    skips_long: bool
    shows_progress: bool | None
    glossary: Mapping[str, str] | None = None
    too_long: list[str] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)
    missing: set[str] = field(default_factory=set)

    def document(self, text: str) -> str:
        """Returns the translation of one text, with progress by sentences."""
        with progress_bar("sentences", wanted=self.shows_progress) as bar:
            return self._translations([text], ["the text"], bar.update)[0]

    def lines(self, lines: Iterator[str], done: int, at_once: int) -> Iterator[str]:
        """Yields chunks of translated lines, with progress by sentences.

        Args:
            lines: Lines with their ends; only those of the next chunk are read.
            done: Number of lines before them, which are translated already.
            at_once: Most lines of a chunk.
        """
        with progress_bar("sentences", wanted=self.shows_progress) as bar:
            while chunk := list(islice(lines, at_once)):
                fields = [f"line {number}" for number in range(done + 1, done + len(chunk) + 1)]
                sources = list(map(self.form.source, chunk, fields))
                translations = self._translations(sources, fields, bar.update)
                yield "".join(map(self.form.rendered, sources, translations))
                done += len(chunk)
                bar.set_postfix_str(f"{done} lines")

    def _translations(
        self, texts: list[str], fields: list[str], progress: Callable[[int], object] | None = None
    ) -> list[str]:
        """Returns the translation of each text; nothing for a text that is skipped as too long."""
        source, target = self.pair
        translations = self.translator.translate(
            texts,
            source=source,
            target=target,
            options=self.options,
            fields=fields,
            too_long=self.too_long.append if self.skips_long else None,
            glossary=self.glossary,
            progress=progress,
        )
        self.missing.update(term.source for each in translations for term in each.missing_terms)
        self.cut.extend(name for name, each in zip(fields, translations, strict=True) if not each.is_finished)
        return [translation.text for translation in translations]


def _command(job: _Job, setup: Setup, decoding: Mapping[str, object]) -> dict[str, object]:
    """Returns everything that a translation depends on except the input.

    Instead of `auto`, it has what was chosen, which differs between machines.
    """
    return {
        "the checkpoint": job.translator.checksum,
        "languages": "-".join(job.pair),
        "--column": job.form.column,
        "--pairs": job.form.pairs,
        "--precision": job.translator.precision,
        "--shortlist": job.translator.has_shortlist,
        "--retry-degenerate": setup.retry_degenerate,
        **({"--glossary": job.glossary} if job.glossary else {}),
        **{f"--{name.replace('_', '-')}": value for name, value in decoding.items()},
    }


def _entries(file: Path) -> dict[str, str]:
    try:
        return read_entries(file.read_text("utf-8"), "--glossary")
    except UnicodeDecodeError as error:
        raise Misuse(f"--glossary must be UTF-8: {error.reason} at byte {error.start}") from None


def _tell_missing(terms: Collection[str]) -> None:
    if terms:
        click.echo(f"terms of the glossary that a translation lacks: {', '.join(sorted(terms))}", err=True)


def _counted(lines: Sequence[str]) -> str:
    return f"{len(lines)} {'line' if len(lines) == 1 else 'lines'}"
