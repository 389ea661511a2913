import gzip
import json
from pathlib import Path

import pytest

from model.errors import CorpusError
from model.training.config_sections import CorpusConfig
from model.training.data.corpus import SentencePair, corpus_files, held_out_texts, read_pairs
from tests.model.training.parallel_text import write_corpus

PAIRS = [SentencePair("Sit down.", "Assieds-toi."), SentencePair("It rains.", "Il pleut\u2028ici.")]


def config(path: Path, **values: object) -> CorpusConfig:
    return CorpusConfig(**({"path": str(path), "source_language": "en", "target_language": "fr"} | values))  # type: ignore[arg-type]


def written(path: Path, text: str) -> Path:
    content = text.encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


TSV = "".join(f"{source}\t{target}\n" for source, target in PAIRS)
CSV = "".join(f'{source},"{target}"\n' for source, target in PAIRS)
TMX = (
    '<?xml version="1.0"?>\n<tmx version="1.4"><body>\n'
    '<tu><tuv xml:lang="EN-gb"><seg>Sit <hi>down</hi><ph>&lt;br></ph>.</seg></tuv>\n'
    '<tuv xml:lang="de"><seg>x</seg></tuv><tuv lang="fr"><seg>Assieds-toi.</seg></tuv></tu>\n'
    '<tu><tuv xml:lang="en"><seg>no pair</seg></tuv></tu>\n'
    '<tu><tuv xml:lang="fr"><seg>Il pleut\u2028ici.</seg></tuv>'
    '<tuv xml:lang="en"><seg>It\n rains.</seg></tuv></tu>\n'
    "</body></tmx>\n"
)
JSON = json.dumps(PAIRS, indent=1)
JSON_LISTS = "\n".join(json.dumps(pair) for pair in PAIRS)
JSON_OBJECTS = "\n\n".join(json.dumps(pair._asdict(), ensure_ascii=False) for pair in PAIRS)
JSON_LANGUAGES = "".join(json.dumps({"fr": pair.target, "en": pair.source}) + "\n" for pair in PAIRS)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", TSV),
        ("a.txt", TSV.replace("\n", "\r\n")),
        ("a.tsv.gz", TSV),
        ("zipped.gz", TSV.rstrip("\n")),
        ("a.tsv", "\ufeff" + TSV),
        ("a.csv", CSV),
        ("a.csv.gz", "en,fr\n" + CSV),
        ("a.csv", "Source;Target\n" + CSV.replace(",", ";")),
        ("a.json", JSON),
        ("a.json.gz", JSON),
        ("a.jsonl", JSON_LISTS),
        ("a.JSONL", JSON_OBJECTS),
        ("a.jsonl.gz", JSON_LANGUAGES),
    ],
)
def test_format_goes_by_the_name(tmp_path: Path, name: str, text: str) -> None:
    assert list(read_pairs(config(written(tmp_path / name, text)))) == PAIRS


def test_gzip_is_recognised_by_content(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(gzip.compress(TSV.encode()))
    assert list(read_pairs(config(tmp_path / "a.tsv"))) == PAIRS


def test_columns_can_be_chosen(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "17\tIl pleut.\tCC0\tIt rains.\n")
    assert list(read_pairs(config(path, source_column=4, target_column=2))) == [("It rains.", "Il pleut.")]


def aligned(tmp_path: Path, source: str, target: str) -> CorpusConfig:
    written(tmp_path / "a.en", source)
    return config(tmp_path / "a.en", target_path=str(written(tmp_path / "a.fr.gz", target)))


def test_aligned_files(tmp_path: Path) -> None:
    corpus = aligned(tmp_path, "One.\n\nTwo.\n", "Un.\n\nDeux.")
    assert list(read_pairs(corpus)) == [("One.", "Un."), ("", ""), ("Two.", "Deux.")]
    assert [path.name for path in corpus_files(corpus)] == ["a.en", "a.fr.gz"]


@pytest.mark.parametrize(
    ("source", "target", "complaint"),
    [
        ("One.\nTwo.\n", "Un.\n", "a.fr.gz: ends at line 1, but .*a.en goes on"),
        ("One.\n", "Un.\nDeux.\n", "a.en: ends at line 1, but .*a.fr.gz goes on"),
    ],
)
def test_misaligned_files(tmp_path: Path, source: str, target: str, complaint: str) -> None:
    with pytest.raises(CorpusError, match=complaint):
        list(read_pairs(aligned(tmp_path, source, target)))


def test_blank_line_is_an_empty_pair(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "One.\tUn.\n\n")
    assert list(read_pairs(config(path))) == [("One.", "Un."), ("", "")]


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.tsv", b"", "empty, no sentence pair"),
        ("a.json", b"", "empty, no sentence pair"),
        ("a.json", b"[]", "empty, no sentence pair"),
        ("a.tsv", b"One.\tUn.\nTwo.\n", "a.tsv:2: 1 tab-separated columns, at least 2 needed"),
        ("a.tsv", b"One.\tUn.\nTwo.\t\xff\n", "a.tsv:2: not UTF-8"),
        ("a.tsv.gz", gzip.compress(b"One.\tUn.\n" * 99, mtime=0)[:-9], "a.tsv.gz: cannot be read after line"),
        (
            "a.tsv.gz",
            gzip.compress(b"One.\tUn.\n", mtime=0)[:10] + b"\xff" * 20,
            "a.tsv.gz: cannot be read after line 0",
        ),
        ("a.json", b'{"en": []}', "must be a list"),
        ("a.json", b'[["One."]]', "entry 1: no pair of strings"),
        ("a.json", b'[["One.", 1]]', "entry 1: no pair of strings"),
        ("a.json", b'[["One.", "Un."', "a.json: not JSON"),
        ("a.json", b"[" * 100_000, "a.json: not JSON"),
        ("a.jsonl", b'["One.", "Un."]\n{"en": "Two."}\n', "a.jsonl:2: no pair of strings"),
        ("a.jsonl", b'["One.", "Un."]\nTwo.\n', "a.jsonl:2: not JSON"),
        ("a.csv", b"a,b\nc\n", "a.csv:2: 1 columns with `,`, at least 2 needed"),
        ("a.csv", b'a,"b\n', "not CSV"),
        ("a.tmx", b"<tmx><body>", "not TMX"),
        ("a.tmx", b'<!DOCTYPE a [<!ENTITY b "c">]><tmx></tmx>', "declares entities"),
        ("a.tmx", b"<tmx></tmx>", "no sentence pair"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, name: str, content: bytes, complaint: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CorpusError, match=complaint):
        list(read_pairs(config(tmp_path / name)))


@pytest.mark.parametrize(
    ("name", "text"), [("a.tsv", TSV), ("a.tsv.gz", TSV.rstrip()), ("a.jsonl", JSON_LISTS)]
)
def test_lines_that_end_in_carriage_returns_are_named(tmp_path: Path, name: str, text: str) -> None:
    path = written(tmp_path / name, text.replace("\n", "\r", 1))
    with pytest.raises(CorpusError, match=f"{name}:1: line ends must be LF or CRLF, but are CR"):
        list(read_pairs(config(path)))


def test_aligned_lines_that_end_in_carriage_returns_are_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"a\.en:1: line ends must be LF or CRLF"):
        list(read_pairs(aligned(tmp_path, "One.\rTwo.\r", "Un.\nDeux.\n")))


def test_a_carriage_return_elsewhere_does_no_harm(tmp_path: Path) -> None:
    within = written(tmp_path / "a.tsv", "One.\rMore.\tUn.\nTwo.\tDeux.\n")
    assert list(read_pairs(config(within))) == [("One.\rMore.", "Un."), ("Two.", "Deux.")]
    assert list(read_pairs(config(written(tmp_path / "b.tsv", "One.\tUn.\r")))) == [("One.", "Un.")]
    assert list(read_pairs(config(written(tmp_path / "a.json", JSON.replace("\n", "\r"))))) == PAIRS


def test_folder_and_missing_file(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="is a folder"):
        list(read_pairs(config(tmp_path)))
    with pytest.raises(CorpusError, match="no such file"):
        list(read_pairs(config(tmp_path / "none.tsv")))


def test_reading_is_lazy(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", TSV + "broken\n")
    pairs = read_pairs(config(path))
    assert [next(pairs), next(pairs)] == PAIRS


@pytest.mark.parametrize("name", ["a.tmx", "a.tmx.gz"])
def test_units_with_both_languages_are_read(tmp_path: Path, name: str) -> None:
    pairs = list(read_pairs(config(written(tmp_path / name, TMX))))
    assert pairs == [PAIRS[0], SentencePair("It rains.", "Il pleut ici.")]


def test_cells_may_hold_quotes_and_line_ends(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", 'x,"one, ""two""\nthree",un\n\ny,b,c\n')
    found = list(read_pairs(config(path, source_column=2, target_column=3)))
    assert found == [('one, "two"\nthree', "un"), ("", ""), ("b", "c")]


def test_held_out_text_is_grouped_by_direction_and_bounded(tmp_path: Path) -> None:
    both = write_corpus(tmp_path / "a.tsv", 5, bidirectional=True)
    one = write_corpus(tmp_path / "b.tsv", 5, seed=1)
    forward, backward = held_out_texts([both, one], max_sentences=2)
    assert forward.direction == ("en", "fr")
    assert backward.direction == ("fr", "en")
    assert forward.pair == "en-fr"
    assert len(forward.sources) == 2
    assert backward.sources == forward.references[:2]
    assert len(held_out_texts([one], max_sentences=0)[0].sources) == 5


def test_the_bound_is_of_a_direction_however_many_corpora_it_has(tmp_path: Path) -> None:
    corpora = [write_corpus(tmp_path / f"{seed}.tsv", 2, seed=seed) for seed in range(3)]
    (text,) = held_out_texts(corpora, max_sentences=3)
    (whole,) = held_out_texts(corpora, max_sentences=0)
    assert (len(text.sources), len(whole.sources)) == (3, 6)
    assert text.sources == whole.sources[:3]
