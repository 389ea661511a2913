"""`checkpoints/recipe/interface_text.py`: the texts that it takes from packages."""

import gzip
import io
import json
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from checkpoints.recipe.interface_text import is_test, main, read_package, rows, wanted

FRONTEND = "hass_frontend/static/translations/"
COMPONENT = "homeassistant/components/lamp/translations/"


def wheel(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def npm_package(path: Path, files: dict[str, object]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            data = json.dumps(content).encode()
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def mo_file(messages: dict[str, str]) -> bytes:
    """A compiled catalogue, little-endian and without a hash table."""
    strings = [text.encode() for text in (*messages, *messages.values())]
    count = len(messages)
    start, table, data = 28 + 16 * count, b"", b""
    for text in strings:
        table += struct.pack("<2I", len(text), start + len(data))
        data += text + b"\0"
    return struct.pack("<7I", 0x950412DE, 0, count, 28, 28 + 8 * count, 0, 0) + table + data


def found(package: Path) -> list[list[str]]:
    return [row for texts in read_package(package) for row in rows(texts)]


def test_files_of_a_package_are_matched_by_language(tmp_path: Path) -> None:
    def lamp(**texts: str) -> bytes:
        return json.dumps({"title": texts}).encode()

    package = wheel(
        tmp_path / "home.whl",
        {
            f"{COMPONENT}en.json": lamp(on="Turn on", off="Turn off", id="Lamp {name}"),
            f"{COMPONENT}de.json": lamp(on="Einschalten", id="Lampe {name}"),
            f"{COMPONENT}zh-Hant.json": lamp(on="開啟"),
            f"{COMPONENT}zh-Hans.json": lamp(on="打开", off="关闭"),
            f"{FRONTEND}en-{'0' * 32}.json": json.dumps({"panel.map": "Map", "panel.log": "Log"}).encode(),
            f"{FRONTEND}fr-{'a' * 32}.json": json.dumps({"panel.map": "Carte", "panel.log": "Log"}).encode(),
        },
    )
    assert found(package) == [
        ["Map", "Carte", "", "", ""],
        ["Turn on", "", "Einschalten", "", "打开"],
        ["Turn off", "", "", "", "关闭"],
    ]


def test_a_compiled_catalogue_has_its_english_as_keys(tmp_path: Path) -> None:
    messages = {"": "Language: es", "Save": "Guardar", "menu\4Open": "Abrir", "%s file\0%s files": "%s\0%s"}
    package = wheel(
        tmp_path / "shop.whl",
        {
            "shop/locale/es/LC_MESSAGES/django.mo": mo_file(messages),
            "shop/locale/fr/LC_MESSAGES/django.mo": mo_file({"Save": "Enregistrer", "Log  in": "Connexion"}),
        },
    )
    assert found(package) == [["Save", "Enregistrer", "", "Guardar", ""], ["Log in", "Connexion", "", "", ""]]


def test_names_of_symbols_languages_and_units(tmp_path: Path) -> None:
    def names(symbol: str, language: str, unit: str, amount: str) -> dict[str, object]:
        locale = {
            "localeDisplayNames": {"languages": {"fr": language, "fr-alt-short": "?"}},
            "units": {"long": {"hour": {"displayName": unit, "unitPattern-count-other": amount}}},
        }
        return {
            "annotations": {"annotations": {"annotations": {"🦞": {"default": ["claw"], "tts": [symbol]}}}},
            "languages": {"main": {"xx": {"localeDisplayNames": locale["localeDisplayNames"]}}},
            "units": {"main": {"xx": {"units": locale["units"]}}},
        }

    files: dict[str, object] = {}
    for code, texts in {
        "en": names("lobster", "French", "hours", "{0} hours"),
        "de": names("Hummer", "Französisch", "Stunden", "{0} Stunden"),
    }.items():
        files[f"package/annotations/{code}/annotations.json"] = texts["annotations"]
        files[f"package/main/{code}/languages.json"] = texts["languages"]
        files[f"package/main/{code}/units.json"] = texts["units"]
    assert found(npm_package(tmp_path / "cldr.tgz", files)) == [
        ["lobster", "", "Hummer", "", ""],
        ["French", "", "Französisch", "", ""],
        ["hours", "", "Stunden", "", ""],
        ["2 hours", "", "2 Stunden", "", ""],
    ]


@pytest.mark.parametrize(
    "text", ["", "…", "{n} files", "<b>Save</b>", "50%", "see www.example.org", "a_b", "x" * 241]
)
def test_placeholders_markup_and_addresses_are_left_out(text: str) -> None:
    assert not wanted(text)
    assert wanted("Are you sure? Yes, I am.")


def test_test_text_is_apart_and_each_line_stands_once(tmp_path: Path) -> None:
    words = [f"Word number {number}" for number in range(200)]
    content = mo_file({word: word.replace("Word", "Wort") for word in words})
    for name in ("a", "b"):
        wheel(tmp_path / f"{name}.whl", {"x/locale/de/LC_MESSAGES/x.mo": content})
    result = CliRunner().invoke(main, [str(tmp_path), "-o", str(tmp_path / "out")], catch_exceptions=False)
    assert result.output == "a.whl: 200 lines\nb.whl: 0 lines\n"
    train, test = (
        gzip.decompress((tmp_path / "out" / f"{name}.tsv.gz").read_bytes()).decode().splitlines()
        for name in ("train", "dev-test")
    )
    assert {len(line.split("\t")) for line in train + test} == {5}
    assert sorted(line.split("\t")[0] for line in train + test) == sorted(words)
    assert {*map(is_test, train)} == {False}
    assert {is_test(line) and is_test(line.upper() + "!") for line in test} == {True}
