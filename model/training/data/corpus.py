"""ⓐ Reads parallel text of any supported format as a stream of sentence pairs."""

import csv
import json
import zlib
from collections.abc import Iterator, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from model.errors import CorpusError
from model.evaluation import HeldOut
from model.files import decoded_lines
from model.text.languages import canonical_code
from model.training.config_sections import CorpusConfig, CorpusFormat

_FORMATS_BY_SUFFIX: dict[str, CorpusFormat] = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".tmx": "tmx",
}
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


class SentencePair(NamedTuple):
    """A sentence and its translation, as the corpus has them."""

    source: str
    target: str


_BLANK = SentencePair("", "")
_ONE_IN = 100


def read_pairs(config: CorpusConfig) -> Iterator[SentencePair]:
    """Stream the pairs of a corpus; only `json` is read into memory completely.

    Raises:
        CorpusError: If a file is missing, a folder, not UTF-8 or not gzip throughout, if its lines end in
            carriage returns alone, if a line has too few columns (its number is named), if aligned files
            differ in length, if a file is not of its format, or if there is no pair.
    """
    readers = {
        "tsv": _read_columns,
        "csv": _read_csv,
        "aligned": _read_aligned,
        "json": _read_json,
        "jsonl": _read_json_lines,
        "tmx": _read_tmx,
    }
    is_empty = True
    for pair in readers[corpus_format(config)](config):
        is_empty = False
        if config.part == "all" or is_held_out(pair) == (config.part == "held_out"):
            yield pair
    if is_empty:
        raise CorpusError(f"{config.path}: empty, no sentence pair to read")


def held_out_texts(corpora: Sequence[CorpusConfig], max_sentences: int) -> tuple[HeldOut, ...]:
    """The validation corpora by direction, at most `max_sentences` each (0 takes all)."""
    texts: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for corpus in corpora:
        pairs = list(islice(read_pairs(corpus), max_sentences or None))
        for direction in corpus.directions:
            is_forward = direction[0] == corpus.source_language
            sides = pairs if is_forward else [(target, source) for source, target in pairs]
            kept = texts.setdefault(direction, [])
            kept.extend(sides)
            del kept[max_sentences or len(kept) :]
    return tuple(
        HeldOut(*direction, tuple(s for s, _ in sides), tuple(t for _, t in sides))
        for direction, sides in texts.items()
    )


def is_held_out(pair: SentencePair) -> bool:
    """Returns whether a pair belongs to the part `held_out` of its corpus."""
    return zlib.crc32(pair.source.strip().encode()) % _ONE_IN == 0


def corpus_format(config: CorpusConfig) -> CorpusFormat:
    """The format; `auto` is resolved by the file's name, with tab-separated as the default."""
    if config.format != "auto":
        return config.format
    if config.target_path is not None:
        return "aligned"
    name = Path(config.path).name.removesuffix(".gz")
    return _FORMATS_BY_SUFFIX.get(Path(name).suffix.lower(), "tsv")


def corpus_files(config: CorpusConfig) -> tuple[Path, ...]:
    """The files of a corpus.

    Raises:
        CorpusError: If a file is missing or a folder.
    """
    names = [config.path] if config.target_path is None else [config.path, config.target_path]
    return tuple(_checked(Path(name)) for name in names)


def _checked(path: Path) -> Path:
    if path.is_dir():
        raise CorpusError(f"{path}: is a folder, name a file of sentence pairs in it")
    if not path.exists():
        raise CorpusError(f"{path}: no such file")
    return path


def read_lines(path: Path) -> Iterator[str]:
    """Lines of a plain or gzip file, without their ends.

    Raises:
        CorpusError: If the file cannot be read; names the line's number.
    """
    number = 0
    try:
        with _checked(path).open("rb") as file:
            for line in decoded_lines(file):
                number += 1
                yield line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path}:{number + 1}: not UTF-8 ({error.reason})") from error
    except (OSError, EOFError, zlib.error) as error:
        raise CorpusError(f"{path}: cannot be read after line {number} ({error})") from error


def _read_sentences(path: Path) -> Iterator[str]:
    """Lines of a file with one sentence or pair per line.

    A carriage return within a sentence is kept, as some corpora have them. A file without any line feed uses
    carriage returns as line ends, and is refused.
    """
    lines = read_lines(path)
    first_two = list(islice(lines, 2))
    if len(first_two) == 1 and "\r" in first_two[0]:
        raise CorpusError(f"{path}:1: line ends must be LF or CRLF, but are CR")
    yield from chain(first_two, lines)


def _read_columns(config: CorpusConfig) -> Iterator[SentencePair]:
    needed = max(config.source_column, config.target_column)
    for number, line in enumerate(_read_sentences(Path(config.path)), start=1):
        columns = line.split("\t") if line.strip() else [""] * needed  # cleaning drops a blank line as empty
        if len(columns) < needed:
            raise CorpusError(
                f"{config.path}:{number}: {len(columns)} tab-separated columns, at least {needed} needed"
            )
        yield _sides(columns, config)


def _sides(columns: Sequence[str], config: CorpusConfig) -> SentencePair:
    return SentencePair(columns[config.source_column - 1], columns[config.target_column - 1])


def _read_csv(config: CorpusConfig) -> Iterator[SentencePair]:
    lines = read_lines(Path(config.path))
    first = next(lines, "")
    delimiter = ";" if first.count(";") > first.count(",") else ","
    rows = csv.reader((f"{line}\n" for line in chain([first], lines)), delimiter=delimiter, strict=True)
    needed = max(config.source_column, config.target_column)
    codes = (config.source_language, config.target_language)
    try:
        for row in rows:
            if row and len(row) < needed:
                place = f"{config.path}:{rows.line_num}"
                raise CorpusError(f"{place}: {len(row)} columns with `{delimiter}`, at least {needed} needed")
            pair = _sides(row, config) if row else _BLANK
            names = tuple(side.strip().lower() for side in pair)
            if rows.line_num > 1 or names not in (("source", "target"), codes):
                yield pair
    except csv.Error as error:
        raise CorpusError(f"{config.path}:{rows.line_num}: not CSV ({error})") from error


def _read_tmx(config: CorpusConfig) -> Iterator[SentencePair]:
    parser: ElementTree.XMLPullParser[ElementTree.Element] = ElementTree.XMLPullParser(["end"])
    wanted = [canonical_code(code) for code in (config.source_language, config.target_language)]
    try:
        for line in read_lines(Path(config.path)):
            if "<!ENTITY" in line:
                raise CorpusError(f"{config.path}: declares entities")
            parser.feed(f"{line}\n")
            for event in parser.read_events():
                element = event[-1]
                if isinstance(element, ElementTree.Element) and element.tag == "tu":
                    found = {_language(each): _segment(each.find("seg")) for each in element.iter("tuv")}
                    if found.keys() >= set(wanted):
                        yield SentencePair(*(found[code] for code in wanted))
                    element.clear()
        parser.close()
    except ElementTree.ParseError as error:
        raise CorpusError(f"{config.path}: not TMX ({error})") from error


def _language(variant: ElementTree.Element) -> str:
    return canonical_code(variant.get(_LANGUAGE) or variant.get("lang") or "und")


def _segment(element: ElementTree.Element | None) -> str:
    """The text of a segment in one line; elements other than `hi` hold the code of another format."""
    if element is None:
        return ""
    parts = [element.text or ""]
    for child in element:
        parts += [_segment(child) if child.tag == "hi" else "", child.tail or ""]
    text = "".join(parts)
    return " ".join(text.split()) if element.tag == "seg" else text


def _read_aligned(config: CorpusConfig) -> Iterator[SentencePair]:
    target_path = config.target_path or ""  # checked by CorpusConfig
    sides = zip_longest(_read_sentences(Path(config.path)), _read_sentences(Path(target_path)))
    for number, (source, target) in enumerate(sides, start=1):
        if source is None or target is None:
            shorter, longer = (config.path, target_path) if source is None else (target_path, config.path)
            raise CorpusError(f"{shorter}: ends at line {number - 1}, but {longer} goes on; not aligned")
        yield SentencePair(source, target)


def _read_json(config: CorpusConfig) -> Iterator[SentencePair]:
    text = "\n".join(read_lines(Path(config.path)))
    entries = _parsed(text or "[]", config.path)
    if not isinstance(entries, list):
        raise CorpusError(f"{config.path}: must be a list of [source, target] pairs")
    for number, entry in enumerate(entries, start=1):
        yield _pair(entry, config, f"{config.path}: entry {number}")


def _read_json_lines(config: CorpusConfig) -> Iterator[SentencePair]:
    for number, line in enumerate(_read_sentences(Path(config.path)), start=1):
        if line.strip():
            place = f"{config.path}:{number}"
            yield _pair(_parsed(line, place), config, place)


def _parsed(text: str, place: str) -> object:
    try:
        value: object = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise CorpusError(f"{place}: not JSON ({error})") from error
    return value


def _pair(entry: object, config: CorpusConfig, place: str) -> SentencePair:
    """A pair from `[source, target]`, `{"source": ..., "target": ...}` or `{"en": ..., "fr": ...}`."""
    sides: tuple[object, object] = (None, None)
    if isinstance(entry, list) and len(entry) >= max(config.source_column, config.target_column):
        sides = (entry[config.source_column - 1], entry[config.target_column - 1])
    elif isinstance(entry, dict) and "source" in entry:
        sides = (entry["source"], entry.get("target"))
    elif isinstance(entry, dict):
        sides = (entry.get(config.source_language), entry.get(config.target_language))
    source, target = sides
    if not isinstance(source, str) or not isinstance(target, str):
        raise CorpusError(
            f"{place}: no pair of strings; [source, target] or an object keyed source/target "
            f"or {config.source_language}/{config.target_language} is needed"
        )
    return SentencePair(source, target)
