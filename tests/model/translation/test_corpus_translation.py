"""A corpus is translated shard by shard, and an interrupted run leaves nothing twice and nothing out."""

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from model.errors import ConfigError, InputError
from model.translation import corpus_translation as corpora
from model.translation.corpus_translation import Corpus, CorpusJob, Shard, translate_corpus
from model.translation.lines import LineForm, line_end, read_lines
from model.translation.result import Translation


@dataclass
class CapitalsTranslator:
    """Writes texts in capitals.

    Attributes:
        calls: The texts of each call.
        most_calls: After how many calls the process "ends"; None never.
    """

    checksum: str = "c0ffee"
    calls: list[Sequence[str]] = field(default_factory=list)
    most_calls: int | None = None

    def translate(
        self,
        texts: Sequence[str],
        *,
        too_long: Callable[[str], object] | None,
        fields: Sequence[str],
        **_: object,
    ) -> list[Translation]:
        if len(self.calls) == self.most_calls:
            raise KeyboardInterrupt
        self.calls.append(texts)
        return [self._translation(text, name, too_long) for text, name in zip(texts, fields, strict=True)]

    @staticmethod
    def _translation(text: str, name: str, too_long: Callable[[str], object] | None) -> Translation:
        if "endless" not in text:
            return Translation(text.upper())
        if too_long is None:
            raise InputError(f"{name} is too long")
        too_long(name)
        return Translation("\n")


@dataclass(frozen=True, kw_only=True)
class CapitalsJob(CorpusJob):
    translator: CapitalsTranslator = field(default_factory=CapitalsTranslator)

    def load(self) -> CapitalsTranslator:  # type: ignore[override]
        return self.translator


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpora, "_SHARD_LINES", 3)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.txt").write_text("".join(f"line {n}\n" for n in range(8)) + "the end")
    (folder / "deep/b.txt.gz").write_bytes(gzip.compress("één\r\n\ntwo\n".encode()))
    (folder / "empty.txt").touch()
    (folder / ".hidden").write_text("no\n")
    return folder


def job(**fields: object) -> CapitalsJob:
    return CapitalsJob(checkpoint="none", pair=("en", "fr"), **fields)  # type: ignore[arg-type]


def record(corpus: Corpus, shard: Shard) -> None:
    corpus.record(shard, job().translate(shard, CapitalsTranslator()))  # type: ignore[arg-type]


def contents(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and ".parts" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found if path.name != "report.json"}


def test_every_file_gets_one_of_its_name_with_every_line_in_order(source: Path, tmp_path: Path) -> None:
    report = translate_corpus(Corpus(str(source), str(tmp_path / "out")), job())
    written = contents(tmp_path / "out")
    assert written.keys() == {"a.txt", "deep/b.txt.gz", "empty.txt"}
    assert written["a.txt"].decode() == (source / "a.txt").read_text().upper()
    assert gzip.decompress(written["deep/b.txt.gz"]).decode() == "ÉÉN\r\n\nTWO\n"
    assert written["empty.txt"] == b""
    assert (report["files"], report["lines"]) == (3, 12)
    assert json.loads((tmp_path / "out/report.json").read_text()) == report


@pytest.mark.parametrize("most_calls", range(5))
def test_a_run_that_was_interrupted_anywhere_is_continued(
    source: Path, tmp_path: Path, most_calls: int
) -> None:
    translate_corpus(Corpus(str(source), str(tmp_path / "whole")), job())
    first, second = CapitalsTranslator(most_calls=most_calls), CapitalsTranslator()
    for translator in (first, second):
        try:
            report = translate_corpus(Corpus(str(source), str(tmp_path / "out")), job(translator=translator))
        except KeyboardInterrupt:
            assert translator is first
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert len(first.calls) == most_calls
    assert len(first.calls) + len(second.calls) == 5
    assert report["lines"] == sum(map(len, second.calls))


def test_a_shard_that_is_translated_twice_is_written_once(source: Path, tmp_path: Path) -> None:
    corpus = Corpus(str(source), str(tmp_path / "out"))
    shards = list(corpus.shards("a.txt"))
    for shard in [*shards[::-1], *shards]:
        record(corpus, shard)
    assert corpus.finish("a.txt").lines == 9
    assert (tmp_path / "out/a.txt").read_text() == (source / "a.txt").read_text().upper()


def test_a_file_with_a_missing_part_is_not_finished(source: Path, tmp_path: Path) -> None:
    corpus = Corpus(str(source), str(tmp_path / "out"))
    first, _, *others = corpus.shards("a.txt")
    for shard in (first, *others):
        record(corpus, shard)
    with pytest.raises(FileNotFoundError):
        corpus.finish("a.txt")
    assert not (tmp_path / "out/a.txt").exists()


def test_an_output_of_another_job_is_refused(source: Path, tmp_path: Path) -> None:
    corpus = Corpus(str(source), str(tmp_path / "out"))
    corpus.begin(job(), "c0ffee")
    corpus.begin(job(), "c0ffee")
    with pytest.raises(ConfigError, match="checkpoint"):
        corpus.begin(job(), "decaf")
    with pytest.raises(ConfigError, match="form"):
        corpus.begin(job(form=LineForm(pairs=True)), "c0ffee")


def test_a_file_that_changed_meanwhile_is_refused(source: Path, tmp_path: Path) -> None:
    corpus = Corpus(str(source), str(tmp_path / "out"))
    shard = next(corpus.shards("a.txt"))
    record(corpus, shard)
    (source / "a.txt").write_text("other\n")
    with pytest.raises(InputError, match=r"a\.txt has changed"):
        list(corpus.shards("a.txt"))


def test_lines_over_the_limit_are_named_in_the_report_or_an_error(source: Path, tmp_path: Path) -> None:
    (source / "a.txt").write_text("one\ntwo\nthree\nendless\nfive\n")
    with pytest.raises(InputError, match=r"line 4 of a\.txt is too long"):
        translate_corpus(Corpus(str(source), str(tmp_path / "strict")), job())
    report = translate_corpus(Corpus(str(source), str(tmp_path / "out")), job(skips_long=True))
    assert report["too_long"] == {"a.txt": [4]}
    assert (tmp_path / "out/a.txt").read_text() == "ONE\nTWO\nTHREE\n\nFIVE\n"


def test_pairs_have_the_source_beside_the_translation(source: Path, tmp_path: Path) -> None:
    translate_corpus(Corpus(str(source / "a.txt"), str(tmp_path / "out")), job(form=LineForm(pairs=True)))
    assert (tmp_path / "out/a.txt").read_text().splitlines()[:2] == ["line 0\tLINE 0", "line 1\tLINE 1"]


def test_rows_of_parquet_get_a_column(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="the extra `ray` is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "source").mkdir()
    texts = ["a\nb", None, "c", "d"]
    table = pyarrow.table({"id": range(4), "text": texts})
    parquet.write_table(table, tmp_path / "source/rows.parquet")
    translate_corpus(Corpus(str(tmp_path / "source"), str(tmp_path / "out")), job())
    written = parquet.read_table(tmp_path / "out/rows.parquet").to_pydict()
    assert written == {"text": ["a\nb", "", "c", "d"], "translation": ["A\nB", "", "C", "D"]}
    with pytest.raises(InputError, match="must have the column other, but has id, text"):
        list(Corpus(str(tmp_path / "source"), str(tmp_path / "out"), "other").shards("rows.parquet"))


def test_places_that_cannot_be_right_are_refused(source: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="another folder"):
        Corpus(str(source), f"{source}/")
    with pytest.raises(ConfigError, match="existing"):
        Corpus(str(tmp_path / "none"), str(tmp_path / "out"))


def test_an_object_store_gets_the_same_files(source: Path, tmp_path: Path) -> None:
    """fsspec's file system in memory has no rename that another process could see, like an object store."""
    import fsspec

    translate_corpus(Corpus(str(source), str(tmp_path / "out")), job())
    translate_corpus(Corpus(str(source), "memory://bucket/out"), job())
    store = fsspec.filesystem("memory")
    for name, content in contents(tmp_path / "out").items():
        assert store.cat_file(f"/bucket/out/{name}") == content


def test_the_last_part_says_so(source: Path, tmp_path: Path) -> None:
    """Otherwise a file would be joined before its end."""
    shards = list(Corpus(str(source), str(tmp_path / "out")).shards("a.txt"))
    assert [shard.is_last for shard in shards] == [False, False, True]
    assert [shard.first_line for shard in shards] == [1, 4, 7]
    assert replace(shards[0], lines=["line 0\n", "line 1\nline 2\n"]).sha256 != shards[0].sha256


def test_a_line_that_is_not_utf_8_is_named_in_packed_files_too(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(gzip.compress(b"a\n\xff\n"))
    with (tmp_path / "x").open("rb") as file, pytest.raises(InputError, match="line 2 of the input"):
        list(read_lines(file))


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_ends_of_lines_stay(end: str) -> None:
    assert line_end(f" a b {end}") == end
    assert LineForm().source(f"a\tb{end}", "line 1") == f"a\tb{end}"
    assert LineForm(column=2).source(f"a\tb\tc{end}", "line 1") == f"b{end}"
    assert LineForm(column=2).source(end, "line 1") == end
