"""`dragoman translate`: translates lines, a document or a corpus, from a file or standard input."""

import io
from collections.abc import Iterator, Mapping
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
from model.cli.output_files import STANDARD, ResumableOutput, is_file_of, written
from model.text.formats.archives import ARCHIVES
from model.text.formats.formats import FORMATTED, read_file
from model.text.glossary import read_entries
from model.translation.lines import LineForm, LineJob, TranslatedLines, read_lines

if TYPE_CHECKING:
    from model.translation.corpus_translation import CorpusJob
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
    by_line = bool(pairs or column or resume or skip_long)
    if document and by_line:
        raise Misuse("--document goes with none of --column, --pairs, --skip-long and --resume")
    suffix = "" if document or by_line else _kept_format(file)
    if output != STANDARD:
        _require_output(Path(output), file, suffix)
    elif resume:
        raise Misuse("--resume needs --output")
    unfinished = ResumableOutput(Path(output)) if resume else None
    if unfinished is not None and unfinished.is_complete:
        click.echo(f"{output} is complete already", err=True)
        return
    entries = None if glossary is None else _entries(glossary)
    translator = setup.load()
    options = translator.card.options(decoding) if decoding else None
    if suffix:
        sample = read_file(suffix, Path(file.name).read_bytes(), "").sample
        pair = languages.resolve(translator.card, sample)
        job = LineJob(pair=pair, options=options, glossary=entries)
        found = _translate_file(translator, job, Path(file.name), output, progress)
    else:
        lines, sample = _sampled(file, form, is_text=document)
        pair = languages.resolve(translator.card, sample)
        job = LineJob(pair=pair, form=form, options=options, skips_long=skip_long, glossary=entries)
        command = _command(job, translator, setup, decoding)
        done = 0 if unfinished is None else unfinished.resume(command, lines)
        found = _translate_lines(
            translator,
            job,
            lines,
            output,
            unfinished,
            done=done,
            at_once=1 if file.isatty() else _LINES_AT_ONCE,
            is_text=document,
            shows_progress=progress,
        )
    found.report()


def _kept_format(file: BinaryIO) -> str:
    """Returns the suffix of a file whose format is kept; empty for lines of text and standard input."""
    suffix = PurePath(str(getattr(file, "name", ""))).suffix.lower()  # standard input may have no name
    return suffix if suffix in FORMATTED else ""


def _sampled(file: BinaryIO, form: LineForm, *, is_text: bool) -> tuple[Iterator[str], str]:
    """Returns the lines of a file, or all of it as one, and what is translated of the first of them."""
    lines = read_lines(file)
    first = list(lines if is_text else islice(lines, 1 if file.isatty() else _SAMPLE_LINES))
    sample = "".join(form.source(line, f"line {number}") for number, line in enumerate(first, 1))
    return iter([sample]) if is_text else chain(first, lines), sample


def _require_output(output: Path, file: BinaryIO, suffix: str) -> None:
    """Refuses a folder, the input itself, a suffix unlike a formatted input's, and text in an archive."""
    if output.is_dir():
        raise Misuse(f"--output must be a file, but {output} is a folder")
    if is_file_of(file, output):
        raise Misuse(f"--output must be another file than the input, but is {output}")
    if suffix and output.suffix.lower() != suffix:
        raise Misuse(f"--output must end in {suffix}, as FILE does, but is {output}")
    if not suffix and output.suffix.lower() in ARCHIVES:
        raise Misuse(f"--output must be text, as FILE is, but is {output}")


def _corpus_job(
    languages: Languages, setup: Setup, decoding: Mapping[str, object], form: LineForm, *, skips_long: bool
) -> "CorpusJob":
    from model.checkpoint.folder import list_checkpoint
    from model.translation.corpus_translation import CorpusJob

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
    from model.translation.corpus_translation import Corpus, translate_corpus

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


@dataclass
class _Findings:
    """Results that the user is told about after the translation.

    Attributes:
        is_text: Whether one text is translated, instead of lines that are counted.
        too_long: Number of lines that were left empty.
        cut: Number of lines whose translation its length limit ended.
        missing: Terms that a translation lacks.
    """

    is_text: bool
    too_long: int = 0
    cut: int = 0
    missing: set[str] = field(default_factory=set)

    def add(self, translated: TranslatedLines) -> None:
        """Adds what was found in some lines."""
        self.too_long += len(translated.too_long)
        self.cut += len(translated.cut)
        self.missing.update(term.source for each in translated.translations for term in each.missing_terms)

    def report(self) -> None:
        """Prints what was found to standard error."""
        if self.too_long:
            click.echo(f"{_counted(self.too_long)} over the limit left empty", err=True)
        if self.cut:
            those = "sentences" if self.is_text else _counted(self.cut)
            click.echo(f"{those} ended by the length limit", err=True)
        if self.missing:
            terms = ", ".join(sorted(self.missing))
            click.echo(f"terms of the glossary that a translation lacks: {terms}", err=True)


def _translate_lines(
    translator: "Translator",
    job: LineJob,
    lines: Iterator[str],
    output: str,
    unfinished: ResumableOutput | None,
    *,
    done: int,
    at_once: int,
    is_text: bool,
    shows_progress: bool | None,
) -> _Findings:
    """Translates lines, of which an earlier call of the command has done some, `at_once` together."""
    found = _Findings(is_text=is_text)
    with (
        progress_bar("sentences", wanted=shows_progress) as bar,
        written(output) if unfinished is None else unfinished.appended() as target,
    ):
        while chunk := list(islice(lines, at_once)):
            names = [f"line {number}" for number in range(done + 1, done + len(chunk) + 1)]
            names = ["the text"] if is_text else names
            translated = job.translate_lines(translator, chunk, names, progress=bar.update)
            found.add(translated)
            target.writelines(line.encode() for line in translated.lines)
            target.flush()
            if unfinished is not None:
                unfinished.record(target, chunk)
            done += len(chunk)
            if not is_text:
                bar.set_postfix_str(f"{done} lines")
    return found


def _translate_file(
    translator: "Translator", job: LineJob, file: Path, output: str, shows_progress: bool | None
) -> _Findings:
    """Translates a file whose format is kept."""
    buffer = io.BytesIO()
    with progress_bar("sentences", wanted=shows_progress) as bar:
        translations = translator.translate_file(
            file,
            buffer,
            source=job.pair[0],
            target=job.pair[1],
            options=job.options,
            glossary=job.glossary,
            progress=bar.update,
        )
    with written(output) as result:
        result.write(buffer.getvalue())
    found = _Findings(is_text=True)
    found.add(TranslatedLines([], translations, []))
    return found


def _command(
    job: LineJob, translator: "Translator", setup: Setup, decoding: Mapping[str, object]
) -> dict[str, object]:
    """Returns everything that a translation depends on except the input.

    Instead of `auto`, it has what was chosen, which differs between machines.
    """
    return {
        "the checkpoint": translator.checksum,
        "languages": "-".join(job.pair),
        "--column": job.form.column,
        "--pairs": job.form.pairs,
        "--precision": translator.precision,
        "--shortlist": translator.has_shortlist,
        "--retry-degenerate": setup.retry_degenerate,
        **({"--glossary": job.glossary} if job.glossary else {}),
        **{f"--{name.replace('_', '-')}": value for name, value in decoding.items()},
    }


def _entries(file: Path) -> dict[str, str]:
    try:
        return read_entries(file.read_text("utf-8"), "--glossary")
    except UnicodeDecodeError as error:
        raise Misuse(f"--glossary must be UTF-8: {error.reason} at byte {error.start}") from None


def _counted(count: int) -> str:
    return f"{count} {'line' if count == 1 else 'lines'}"
