"""XLIFF 1.2 and 2: sources are translated into targets; a unit that has a translation already keeps it.

As for archives, no XML parser reads the file, so that entities cannot grow and no other file is opened.
"""

import dataclasses
import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from model.text.formats.file_text import FileError, FileText, declared_utf_8, decoded_markup, replaced
from model.text.formats.markup_syntax import XML, closes_itself, has_translate_no

# The elements that decide what a text is, in comments and CDATA sections not at all. A comment without an end
# extends to the end of the file; possessive quantifiers keep that linear.
_TAG = re.compile(
    r"<!--(?:(?!-->).)*+|<!\[CDATA\[(?:(?!\]\]>).)*+"
    r"|<(?P<end>/?)(?P<prefix>(?:[\w.-]+:)?)"
    r"(?P<name>xliff|file|group|unit|segment|trans-unit|alt-trans|matches|match|seg-source|source|target)"
    r"(?P<attributes>(?=[\s/>])[^<>]*)>",
    re.DOTALL,
)
# Placeholders, whose content is the code of another format, and spans that only mark text.
_SYNTAX: Final = dataclasses.replace(
    XML,
    inline=frozenset({"bpt", "bx", "ec", "em", "ept", "ex", "g", "it", "mrk", "pc", "ph", "sc", "sm", "x"}),
    untranslated=frozenset({"bpt", "ept", "it", "ph"}),
    paired={"bpt": "ept", "bx": "ex", "sc": "ec"},
    placeholders=frozenset({"ph", "x"}),
)
_VERSION_2 = re.compile(r"<(?:[\w.-]+:)?xliff(?=\s)[^<>]*\sversion\s*=\s*[\"']2")
_INLINE_TAG = re.compile("</?[A-Za-z][^<>]*>")
_CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
_STATE = re.compile(r"""(\sstate\s*=\s*)(?:"[^"]*"|'[^']*')""")


@dataclass
class _Unit:
    """A source, and where its translation belongs.

    Attributes:
        prefix: Of the namespace of its elements, with the colon.
        text: What its source holds.
        place: Where a target is inserted.
        indent: The white space before its source.
        target: Start and end of its target; None if there is none.
        start_tag: The start tag of this target.
        translation: What this target holds.
    """

    prefix: str
    text: str
    place: int
    indent: str
    target: tuple[int, int] | None = None
    start_tag: str = ""
    translation: str = ""

    @property
    def is_open(self) -> bool:
        """Returns whether there is a text, and no translation yet; a copy of the source is none."""
        text, translation = (_INLINE_TAG.sub("", each).strip() for each in (self.text, self.translation))
        return bool(self.text.strip()) and translation in ("", text)

    def replacement(self, text: str) -> tuple[int, int, str]:
        """Returns the start, end and new content of the place of its target."""
        if self.target is None:
            new = f"{self.indent}<{self.prefix}target>{text}</{self.prefix}target>"
            return self.place, self.place, new
        tag = _STATE.sub(r'\1"translated"', self.start_tag.removesuffix(">").removesuffix("/"))
        return *self.target, f"{tag}>{text}</{self.prefix}target>"


def xliff(content: bytes, target: str) -> FileText:
    """Returns the sources of an XLIFF file that have no translation.

    Args:
        content: The file.
        target: Code of the language that it is translated into, which the file names unless it names one.

    Raises:
        FileError: If it is no XLIFF file, is cut short, is not in the charset that it declares, or declares
            entities.
    """
    source = declared_utf_8(decoded_markup(content).removeprefix("\ufeff"))
    if not any(tag["name"] == "xliff" and tag["end"] for tag in _TAG.finditer(source)):
        raise FileError("must be XLIFF, but has no complete element `xliff`")
    if "<!ENTITY" in source:
        raise FileError("declares entities")
    units = [unit for unit in _units(source) if unit.is_open]
    languages = _languages(source, target)

    def rebuild(translations: Sequence[str]) -> bytes:
        new = (unit.replacement(text) for unit, text in zip(units, translations, strict=True))
        return replaced(source, [*languages, *new]).encode()

    texts = tuple(
        _CDATA.sub(lambda section: html.escape(section[1], quote=False), unit.text) for unit in units
    )
    return FileText(texts, rebuild, markup=_SYNTAX, joins_lines=True)


def _languages(source: str, target: str) -> list[tuple[int, int, str]]:
    """Returns the attributes that name the target language, to be inserted where they are missing."""
    name, attribute = ("xliff", "trgLang") if _VERSION_2.search(source) else ("file", "target-language")
    tags = (tag for tag in _TAG.finditer(source) if tag["name"] == name and not tag["end"])
    ends = [tag.end("attributes") for tag in tags if f"{attribute}=" not in tag["attributes"]]
    return [(end, end, f' {attribute}="{target}"') for end in ends]


def _units(source: str) -> Iterator[_Unit]:
    """Yields the units that may be translated."""
    opened: list[tuple[str, bool]] = []
    unit: _Unit | None = None
    begin = 0
    for tag in _TAG.finditer(source):
        name = tag["name"]
        if name is None:
            continue
        if not tag["end"]:
            is_kept = _is_kept(opened[-1][1] if opened else False, tag["attributes"])
            if not closes_itself(tag["attributes"]):
                opened.append((name, is_kept))
                begin = tag.end()
            elif name == "target" and unit is not None and opened[-1][0] in ("segment", "trans-unit"):
                unit.target, unit.start_tag = tag.span(), tag[0]
            continue
        while opened and opened.pop()[0] != name:
            pass
        parent, is_kept = opened[-1] if opened else ("", True)
        if name in ("segment", "trans-unit"):
            if unit is not None:
                yield unit
            unit = None
        elif parent in ("segment", "trans-unit") and not is_kept:
            unit = _with(unit, tag, source, begin)


def _with(unit: _Unit | None, tag: re.Match[str], source: str, begin: int) -> _Unit | None:
    """Returns a unit with the element that a tag ends."""
    if tag["name"] == "source":
        start = source.rindex("<", 0, begin)
        indent = source[source.rindex(">", 0, start) + 1 : start]
        text = source[begin : tag.start()]
        return _Unit(tag["prefix"], text, tag.end(), indent if indent.isspace() else "")
    if unit is not None and tag["name"] == "seg-source":
        # Its segments are marked, and tools expect the same marks in the target.
        unit.place, unit.text = tag.end(), source[begin : tag.start()]
    elif unit is not None and tag["name"] == "target":
        start = source.rindex(f"<{tag['prefix']}target", 0, begin)
        unit.target = start, tag.end()
        unit.start_tag, unit.translation = source[start:begin], source[begin : tag.start()]
    return unit


def _is_kept(is_kept: bool, attributes: str) -> bool:
    """Returns whether the text of an element is not translated, as it or its parent says."""
    if "translate" not in attributes:
        return is_kept
    is_translated = re.search(r"translate\s*=\s*.yes", attributes) is not None
    return has_translate_no(attributes) or (is_kept and not is_translated)
