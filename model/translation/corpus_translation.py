"""A corpus of any size: its files are translated shard by shard, by one process or by many.

    INPUT/a.en.gz  ──shards──►  OUTPUT/.parts/a.en.gz/00000000.json …  ──joined──►  OUTPUT/a.en.gz

A shard is some lines of one file. Its translation becomes one part, written at once under a name that its
place decides. A worker that ends leaves its part out, and a shard that is translated twice gives the same
part twice. So every line comes exactly once into the output, in its file's order, and an interrupted run is
continued from its parts.
"""

import gzip
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import BinaryIO, Final

import fsspec.core
from fsspec import AbstractFileSystem

from model.errors import ConfigError, InputError
from model.translation.lines import LineForm, LineJob, read_lines
from model.translation.translator import Translator

PARQUET: Final = ".parquet"
_SHARD_LINES: Final = 1024
_PARTS: Final = ".parts"
_COMMAND: Final = "command.json"
_REPORT: Final = "report.json"
_TRANSLATION: Final = "translation"


@dataclass(frozen=True)
class Shard:
    """Some lines of one file.

    Attributes:
        file: Name of the file, relative to the corpus.
        index: Its place among the file's shards, from 0.
        first_line: Number of its first line, from 1.
        lines: The lines with their ends; of a Parquet file, the texts of the rows.
        is_last: Whether it ends the file.
    """

    file: str
    index: int
    first_line: int
    lines: Sequence[str]
    is_last: bool

    @property
    def sha256(self) -> str:
        """Checksum of its lines."""
        return hashlib.sha256("\0".join(self.lines).encode()).hexdigest()


@dataclass(frozen=True)
class Part:
    """The translation of a shard.

    Attributes:
        sha256: Checksum of the shard's lines.
        is_last: Whether it ends the file.
        lines: The lines to write; of a Parquet file, the translations of the rows.
        tokens: Number of target tokens.
        too_long: Numbers of the lines that were left empty, because they are over the checkpoint's limit.
        cut: Numbers of the lines whose translation its length limit ended.
        sentences: Number of sentences that were translated.
    """

    sha256: str
    is_last: bool
    lines: Sequence[str]
    tokens: int
    too_long: Sequence[int] = ()
    cut: Sequence[int] = ()
    sentences: int = 0


@dataclass(frozen=True, kw_only=True)
class CorpusJob(LineJob):
    """The job of translating every shard; it is sent to other machines.

    Attributes:
        checkpoint: The checkpoint folder, at the same path on every machine.
        loading: Further arguments of `Translator.load`.
    """

    checkpoint: str
    loading: Mapping[str, object] = field(default_factory=dict)

    def load(self) -> Translator:
        """Returns the translator of this process."""
        return Translator.load(self.checkpoint, **self.loading)  # type: ignore[arg-type]

    def translate(self, shard: Shard, translator: Translator) -> Part:
        """Returns the translation of a shard.

        Raises:
            InputError: If a line cannot be translated; its number and file are named.
        """
        numbers = range(shard.first_line, shard.first_line + len(shard.lines))
        names = [f"line {number} of {shard.file}" for number in numbers]
        form = LineForm() if shard.file.endswith(PARQUET) else self.form
        translated = self.translate_lines(translator, shard.lines, names, form=form)
        sentences = [each for translation in translated.translations for each in translation.sentences]
        return Part(
            shard.sha256,
            shard.is_last,
            translated.lines,
            tokens=sum(len(sentence.best.token_ids) for sentence in sentences),
            too_long=[numbers[place] for place in translated.too_long],
            cut=[numbers[place] for place in translated.cut],
            sentences=len(sentences),
        )


class Corpus:
    """A folder or an object store's prefix with text, and the one where its translation is written.

    Args:
        source: A path or a URL such as `s3://bucket/prefix`, for which its fsspec package must be installed.
            Text files, plain or gzip, one sentence or paragraph a line; and Parquet files.
        output: A path or a URL; the files get the same names as those of the source.
        column: The column of Parquet files that holds the text.

    Raises:
        ConfigError: If there is nothing at `source`, or `output` is the same place.
    """

    def __init__(self, source: str, output: str, column: str = "text") -> None:
        self._source_fs, self._source = _opened(source)
        self._output_fs, self._output = _opened(output)
        self._column = column
        self._kept: frozenset[str] = frozenset()
        if (type(self._source_fs), self._source) == (type(self._output_fs), self._output):
            raise ConfigError("output", "another folder than the input", output)
        if not self._source_fs.exists(self._source):
            raise ConfigError("input", "an existing file, folder or prefix", source)

    def files(self) -> list[str]:
        """Returns the names of all files, relative to the corpus; hidden files do not belong to it."""
        if self._source_fs.isfile(self._source):
            return [self._source.rpartition("/")[2]]
        found = (path[len(self._source) :].strip("/") for path in self._source_fs.find(self._source))
        return sorted(name for name in found if not any(part.startswith(".") for part in name.split("/")))

    def unfinished(self) -> list[str]:
        """Returns the names of the files that have no complete output yet."""
        return [name for name in self.files() if not self._output_fs.exists(self._path(name))]

    def begin(self, job: CorpusJob, checksum: str) -> None:
        """Records what the output depends on; a run that continues must be the same.

        Args:
            job: The job.
            checksum: Checksum of its checkpoint.

        Raises:
            ConfigError: If the output was begun by another job.
        """
        command = {
            "checkpoint": checksum,
            "pair": "-".join(job.pair),
            "form": asdict(job.form),
            "options": None if job.options is None else asdict(job.options),
            "skips_long": job.skips_long,
            "glossary": job.glossary,
            "column": self._column,
        }
        path = self._path(_PARTS, _COMMAND)
        if self._output_fs.exists(path):
            before = json.loads(self._output_fs.cat_file(path))
            for name, value in json.loads(json.dumps(command)).items():
                if before.get(name) != value:
                    requirement = f"empty, or begun with the same {name} ({before.get(name)})"
                    raise ConfigError("output", requirement, f"begun with another: {value}")
        else:
            self._write(path, json.dumps(command))
        # Parts of earlier runs, which are not work of this one.
        self._kept = frozenset(self._output_fs.find(self._path(_PARTS)))

    def shards(self, file: str) -> Iterator[Shard]:
        """Yields the shards of a file that have no part yet.

        Raises:
            InputError: If a line is not UTF-8, or the file has changed since its first parts were written.
        """
        first_line = 1
        for index, (lines, is_last) in enumerate(_with_last(self._chunks(file))):
            shard = Shard(file, index, first_line, lines, is_last)
            part = self._part(file, index)
            if part is None:
                yield shard
            elif (part.sha256, part.is_last) != (shard.sha256, is_last):
                raise InputError(f"{file} has changed since its translation was begun")
            first_line += len(lines)

    def record(self, shard: Shard, part: Part) -> None:
        """Writes the part of a shard; a second time changes nothing."""
        self._write(self._part_path(shard.file, shard.index), json.dumps(asdict(part), ensure_ascii=False))

    def finish(self, file: str) -> "FileReport":
        """Joins the parts of a file to its output, and removes them.

        Raises:
            FileNotFoundError: If a part is missing.
        """
        report = FileReport(file)
        with self._written(file) as write:
            for index, part in enumerate(self._parts(file)):
                write(part.lines)
                report.add(part, is_new=self._part_path(file, index) not in self._kept)
        self._output_fs.rm(self._path(_PARTS, file), recursive=True)
        return report

    def report(self, files: Sequence["FileReport"], seconds: float) -> dict[str, object]:
        """Writes and returns `report.json`.

        It has figures of this run, the lines that were left empty and those that the length limit ended.
        """
        lines, kept = sum(each.lines for each in files), sum(each.kept_lines for each in files)
        done = {
            "lines": lines - kept,
            "sentences": sum(each.sentences for each in files),
            "target_tokens": sum(each.tokens for each in files),
        }
        report: dict[str, object] = {
            "files": len(files),
            "kept_lines": kept,
            "seconds": round(seconds, 1),
            **done,
            **{f"{name}_per_second": round(count / max(seconds, 1e-9), 1) for name, count in done.items()},
            "too_long": {each.file: each.too_long for each in files if each.too_long},
            "cut": {each.file: each.cut for each in files if each.cut},
        }
        self._write(self._path(_REPORT), json.dumps(report, indent=1, ensure_ascii=False))
        return report

    def _path(self, *names: str) -> str:
        return "/".join((self._output, *names))

    def _part_path(self, file: str, index: int) -> str:
        return self._path(_PARTS, file, f"{index:08}.json")

    def _part(self, file: str, index: int) -> Part | None:
        path = self._part_path(file, index)
        return Part(**json.loads(self._output_fs.cat_file(path))) if self._output_fs.exists(path) else None

    def _parts(self, file: str) -> Iterator[Part]:
        index, is_last = 0, False
        while not is_last:
            part = self._part(file, index)
            if part is None:
                raise FileNotFoundError(self._part_path(file, index))
            yield part
            index, is_last = index + 1, part.is_last

    def _chunks(self, file: str) -> Iterator[list[str]]:
        """Yields the lines or texts of a file, some at a time."""
        path = self._source if self._source_fs.isfile(self._source) else f"{self._source}/{file}"
        with self._source_fs.open(path, "rb") as opened:
            if file.endswith(PARQUET):
                yield from _texts(opened, self._column, file)
                return
            try:
                with closing(read_lines(opened)) as lines:
                    while chunk := list(islice(lines, _SHARD_LINES)):
                        yield chunk
            except InputError as error:
                raise InputError(f"{file}: {error}") from error

    @contextmanager
    def _written(self, file: str) -> Iterator[Callable[[Sequence[str]], object]]:
        """Opens the output of a file, which exists under its name only when it is complete."""
        path, begun = self._path(file), self._path(_PARTS, f"{file}.joined")
        self._output_fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        with self._output_fs.open(begun, "wb") as opened:
            is_table = file.endswith(PARQUET)
            with (
                _row_writer(opened, self._column, self._chunks(file))
                if is_table
                else _text_writer(opened, is_packed=file.endswith(".gz"))
            ) as write:
                yield write
        self._output_fs.mv(begun, path)

    def _write(self, path: str, text: str) -> None:
        """Writes a file that is never half there: object stores write at once, folders rename."""
        self._output_fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        if "file" not in self._output_fs.protocol:
            self._output_fs.pipe_file(path, text.encode())
            return
        begun = f"{path}.{time.monotonic_ns()}"
        self._output_fs.pipe_file(begun, text.encode())
        self._output_fs.mv(begun, path)


@dataclass
class FileReport:
    """Figures of a file that is complete.

    Attributes:
        file: Its name.
        lines: Number of its lines or rows.
        kept_lines: How many of them an earlier run translated.
        sentences: Number of sentences that this run translated.
        tokens: Number of target tokens of this run.
        too_long: Numbers of the lines that were left empty.
        cut: Numbers of the lines whose translation its length limit ended.
    """

    file: str
    lines: int = 0
    kept_lines: int = 0
    sentences: int = 0
    tokens: int = 0
    too_long: list[int] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)

    def add(self, part: Part, *, is_new: bool) -> None:
        """Adds the figures of the next part, which this run or an earlier one translated."""
        self.lines += len(part.lines)
        self.too_long += part.too_long
        self.cut += part.cut
        if is_new:
            self.sentences += part.sentences
            self.tokens += part.tokens
        else:
            self.kept_lines += len(part.lines)


@contextmanager
def _text_writer(file: BinaryIO, *, is_packed: bool) -> Iterator[Callable[[Sequence[str]], object]]:
    """Yields what writes the lines of a part."""
    # Without a time in its head, the same text gives the same bytes.
    packed = gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) if is_packed else nullcontext(file)
    with packed as target:
        yield lambda lines: target.write("".join(lines).encode())


@contextmanager
def _row_writer(
    file: BinaryIO, column: str, texts: Iterator[Sequence[str]]
) -> Iterator[Callable[[Sequence[str]], object]]:
    """Yields what writes the rows of a part to a Parquet file: the text, and its translation.

    Args:
        file: Where they are written.
        column: Name of the column of texts.
        texts: The texts of the source, as many at a time as the parts have.
    """
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    schema = pyarrow.schema([(column, pyarrow.string()), (_TRANSLATION, pyarrow.string())])
    with ParquetWriter(file, schema) as writer:
        yield lambda lines: writer.write_table(pyarrow.table([next(texts, ()), lines], schema=schema))


def _texts(file: BinaryIO, column: str, name: str) -> Iterator[list[str]]:
    """Yields the texts of a Parquet file's column, some at a time; a missing value is an empty text."""
    from pyarrow.parquet import ParquetFile

    opened = ParquetFile(file)
    if column not in opened.schema_arrow.names:
        columns = ", ".join(opened.schema_arrow.names)
        raise InputError(f"{name} must have the column {column}, but has {columns} instead")
    for batch in opened.iter_batches(batch_size=_SHARD_LINES, columns=[column]):
        yield [value or "" for value in batch.column(0).to_pylist()]


def _with_last(chunks: Iterable[list[str]]) -> Iterator[tuple[list[str], bool]]:
    """Yields each chunk and whether it is the last; an empty file has one chunk without lines."""
    before: list[str] = []
    for number, chunk in enumerate(chunks):
        if number:
            yield before, False
        before = chunk
    yield before, True


def _opened(path: str) -> tuple[AbstractFileSystem, str]:
    file_system, plain = fsspec.core.url_to_fs(path)
    return file_system, plain.rstrip("/")


def translate_corpus(corpus: Corpus, job: CorpusJob) -> dict[str, object]:
    """Translates a corpus in this process, with all its cores, and continues what was interrupted.

    Returns:
        The report, as `Corpus.report` writes it.

    Raises:
        ConfigError: If the output was begun by another job.
        InputError: If a line cannot be read or translated.
    """
    translator = job.load()
    corpus.begin(job, translator.checksum)
    began, reports = time.monotonic(), []
    for file in corpus.unfinished():
        for shard in corpus.shards(file):
            corpus.record(shard, job.translate(shard, translator))
        reports.append(corpus.finish(file))
    return corpus.report(reports, time.monotonic() - began)
