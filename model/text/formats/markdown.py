"""Markdown: the text of paragraphs, headings, items and cells; code, links' addresses and layout stay."""

import html
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from model.text.formats.file_text import FileText, decoded, text_of
from model.text.kept_strings import MATHS

_BYTE_ORDER_MARK = "\ufeff"
_FRONT_MATTER = re.compile(r"\A(---|\+\+\+)[ \t]*\n.*?^\1[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_FENCE = re.compile(r"[ \t>]*(?:[-*+] +|\d+[.)] +)?(`{3,}|~{3,}|\$\$(?=[ \t]*\Z))")
_FORMULA_END = "$$"  # ends a line; a line of its own begins a formula
# Quotes, bullets, numbers, boxes to tick, headings, footnotes, definitions.
_PREFIX = re.compile(
    r"(?:[ \t]*>[ \t]?)*[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?)*"
    r"(?:\#{1,6}[ \t]+|\[\^[^\]\n]+\]:[ \t]*|:[ \t]+)?"
)
_QUOTE = re.compile(r"(?:[ \t]*>[ \t]?)*[ \t]*")
# HTML whose lines are no Markdown, up to its end, which may be on the same line.
_HTML_BLOCK = re.compile(
    r"[ \t>]*<(?:(?P<comment>!--)|(?P<name>script|pre|style|textarea)(?=[\s>]|\Z))", re.IGNORECASE
)
# Rules, underlines of headings, rows between a table's head and body, addresses of links, comments, tags,
# the kinds of notes (`:::note`, `!!! note`, `[!NOTE]`).
_NO_TEXT = re.compile(
    r"[ \t>]*+(?:[-=*_ \t]*+|[|:\- \t]++|\[[^\]\n^][^\]\n]*\]:[ \t]*\S.*|<!--.*-->|</?[A-Za-z][^>]*>"
    r"|!\[\]\([^)]*\)|:::.*|(?:!!!|\?\?\?\+?)[ \t]+\w.*|\[![A-Z]+\])[ \t]*"
)
# The title behind the kind of a note: `!!! note "Title"`, `::: tip Title`, `:::note[Title]{.class}`; or that
# behind the address of a link: `[label]: address "Title"`.
_TITLE = re.compile(
    r'(?P<before>[ \t>]*+(?:(?:!!!|\?\?\?\+?)[ \t]+\w[\w -]*+"'
    r"|:{3,}+[ \t]*+\w[\w-]*+[ \t]++|:{2,}+\w[\w-]*+\["
    r'|\[[^\]\n^][^\]\n]*\]:[ \t]*[^\s"]+[ \t]+"))'
    r'(?P<text>[^"{}:\s](?:[^"{}]*?[^"{}\s])?)(?:"|\](?:\{[^{}]*\})?)?'
)
_LABEL = re.compile(r"^[ \t>]*\[([^\]\n^][^\]\n]*)\]:[ \t]*\S", re.MULTILINE)
_RULE = re.compile(r"[ \t>]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")
_HTML_ENDS = ("-->", "</")
_CELL_END = re.compile(r"((?<!\\)\|)")
# What more text may belong to, if it is indented: as its own text is, or by four columns below notes.
_ITEM = re.compile(r"[ \t>]*(?:(?:[-*+:]|\d{1,9}[.)])[ \t]+|(?P<note>\[\^[^\]\n]+\]:|!!!|\?\?\?))")
_CODE_INDENT = 4  # columns, more than those of the text around it
_ADDRESS = r"""(?:<[^<>\n]*>|[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?:\s+(?:"[^"]*"|'[^']*'))?"""
_INLINE = re.compile(
    rf"""
    (?P<text>\\. | {MATHS} | (?<!`)(?P<ticks>`++).*?(?<!`)(?P=ticks)(?!`) | <[^<>\s][^<>]*> | https?://[^\s)\]>]+)
    | (?P<note>\[\^[^\[\]\s]+\])
    | (?P<open>(?:\[!|!)?\[)(?=[^\[\]]*\]|(?:[^\[\]`]*+`[^`]{{0,200}}+`){{1,4}}[^\[\]`]*+\])
    | (?P<close>(?:\]\((?:{_ADDRESS}|\{{[{{%][^{{}}]*[%}}]\}}[^()\s]*)\)){{1,2}} | \]\[[^\[\]]*\] | \](?!\())
    | (?P<mark>\*{{1,3}}+(?=\S)|(?<=[^\s*])\*{{1,3}}+|~~|(?<![\w=])==(?=[^\s=])|(?<=[^\s=])==(?![\w=])
        |(?<!\w)_{{1,3}}(?=\S)|(?<=\S)_{{1,3}}(?!\w))
    """,
    re.VERBOSE,
)
# Marks that may be open at once: looking through all of them would take quadratic time.
_MAX_OPEN = 16
_LONGEST_WORD = 40
_LAST_WORD = re.compile(r"\w+[.,;:!?…]?\Z")
_SAME_LABEL = re.compile(r"(\[([^\[\]]+)\])\[\2\]")
_TAG = re.compile(r'<([ab]) id="(\d+)"(?: title="([^"]*)")?>|</([ab])>')
_EMPTY = re.compile(r'<b id="(\d+)"></b>')
_LINK_TITLE = re.compile(r"""(?<=\s)(["'])(.*?)\1(?=\))""")


def markdown(content: bytes) -> FileText:
    """Returns the paragraphs, headings, items and cells of a Markdown file, their inline marks as tags."""
    text = decoded(content)
    labels = frozenset(label.lower() for label in _LABEL.findall(text))
    return text_of([each if isinstance(each, str) else Inline(*each, labels) for each in _pieces(text)])


@dataclass
class Inline:
    """A text with inline marks: emphasis becomes `<b>`, links become `<a>`.

    Attributes:
        source: The text as it was written.
        in_cell: Whether it is a cell of a table, where a bar is escaped.
        labels: What links may refer to, in lower case.
        markup: The text as HTML.
    """

    source: str
    in_cell: bool = False
    labels: Collection[str] = frozenset()
    markup: str = ""
    _marks: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.source = self.source.replace(r"\|", "|") if self.in_cell else self.source
        found = [each for each in _INLINE.finditer(self.source) if not each["text"]]
        parts, position = list[str](), 0
        for tag, begin, end in sorted(self._tags(found), key=lambda item: item[1]):
            parts += [html.escape(self.source[position:begin], quote=False), tag]
            position = end
        self.markup = "".join([*parts, html.escape(self.source[position:], quote=False)])

    def _tags(self, found: Sequence[re.Match[str]]) -> Iterator[tuple[str, int, int]]:
        """The tags of marks that come in pairs, properly nested, with their places; other marks are text."""
        opened: list[re.Match[str]] = []
        last = 0
        for mark in found:
            wanted = ("[", "![", "[![") if mark["close"] else (mark[0],)
            begun = [place for place, each in enumerate(opened) if each[0] in wanted and not mark["open"]]
            if mark["note"]:
                # A footnote's number stays behind its word.
                yield from self._pair("b", "", mark[0], _word_start(self.source, mark.start(), last), mark)
            elif begun and (mark["close"] or not self.source[mark.start() - 1 : mark.start()].isspace()):
                start = opened[begun[-1]]
                del opened[begun[-1] :]
                name = "a" if mark["close"] else "b"
                closing, label = mark[0], self.source[start.end() : mark.start()]
                is_label = closing in ("]", "][]")  # The text is the label too, which is not translated.
                if not is_label or label.lower() in self.labels:
                    closing = f"][{label}]" if is_label else closing
                    yield from self._pair(name, start[0], closing, start.start(), mark)
            elif not (mark["close"] or self.source[mark.end() : mark.end() + 1].isspace()):
                opened.append(mark)
                del opened[:-_MAX_OPEN]
            last = mark.end()

    def _pair(
        self, name: str, opening: str, closing: str, begin: int, mark: re.Match[str]
    ) -> Iterator[tuple[str, int, int]]:
        """The tags of an element that begins at a place and ends with a mark."""
        title = _LINK_TITLE.search(closing) if name == "a" else None
        attribute = f' title="{html.escape(title[2])}"' if title else ""
        yield f'<{name} id="{len(self._marks)}"{attribute}>', begin, begin + len(opening)
        yield f"</{name}>", mark.start(), mark.end()
        self._marks.append((opening, closing))

    def restored(self, markup: str) -> str:
        """Returns a translation of `markup` with the marks of the source."""
        ends: list[str] = []
        while (shorter := _EMPTY.sub(self._emptied, markup)) != markup:
            markup = shorter

        def mark(tag: re.Match[str]) -> str:
            if tag[2]:
                start, end = self._marks[int(tag[2])]
                ends.append(
                    _LINK_TITLE.sub(lambda old: _quoted(tag[3], old[1]), end, count=1) if tag[3] else end
                )
                return f"\0{start}\0"
            return f"\0{ends.pop()}\0" if ends else ""

        # Marks that a network added to the words would format them.
        added = str.maketrans(dict.fromkeys(set("*_`~") - set(_TAG.sub("", self.markup)), ""))
        parts = _TAG.sub(mark, markup).split("\0")
        parts[::2] = (html.unescape(part).translate(added) for part in parts[::2])
        text = "".join(parts)
        for emphasis in {start for start, end in self._marks if start == end}:
            # Marks of two neighbours would be read as other marks.
            text = text.replace(2 * emphasis, "") if 2 * emphasis not in self.source else text
        text = _SAME_LABEL.sub(self._shortest, text) if self.labels else text
        return text.replace("|", r"\|") if self.in_cell else text

    def _emptied(self, element: re.Match[str]) -> str:
        """Returns an element around nothing; emphasis is nothing then, as its marks would be other marks."""
        start, end = self._marks[int(element[1])]
        return "" if start == end else element[0]

    def _shortest(self, link: re.Match[str]) -> str:
        """Returns a link whose text is its label as the source writes it, else without a label."""
        return next((each for each in (link[0], f"{link[1]}[]") if each in self.source), link[1])


def _quoted(title: str, quote: str) -> str:
    """Returns the title of a link, which is HTML, in Markdown."""
    return quote + html.unescape(title).replace(quote, f"\\{quote}") + quote


def _word_start(text: str, end: int, least: int) -> int:
    """Returns where the word begins that ends before a place, with a mark of punctuation behind it."""
    begin = max(least, end - _LONGEST_WORD)
    word = _LAST_WORD.search(text, begin, end)
    return word.start() if word else end


def _pieces(source: str) -> Iterator[str | tuple[str, bool]]:
    """The file in order: what stays as strings, texts as tuples with whether they are cells."""
    if source.startswith(_BYTE_ORDER_MARK):
        yield _BYTE_ORDER_MARK
        source = source[1:]
    front = _FRONT_MATTER.match(source)
    if front:
        yield front[0]
        source = source[front.end() :]
    yield from _LineReader(source.splitlines(keepends=True)).pieces()


class _LineReader:
    """Tells for each line of a file whether it stays or has text, and joins the lines of paragraphs.

    Args:
        lines: All lines, with their ends.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._last_formula_end = max((n for n, line in enumerate(lines) if _ends_formula(line)), default=0)
        self._fence = ""  # what ends the code, formula or HTML that a line is in; empty outside of them
        self._code_indent = _CODE_INDENT  # columns of white space that make code of a line
        self._is_indented_code, self._is_in_table, self._is_after_blank = False, False, True
        self._paragraph: list[str] = []

    def pieces(self) -> Iterator[str | tuple[str, bool]]:
        """The lines in order, as `_pieces` has them."""
        for number, (line, following) in enumerate(pairwise((*self._lines, ""))):
            yield from self._read(number, line, following)
        yield from _joined(self._paragraph)

    def _read(self, number: int, line: str, following: str) -> Iterator[str | tuple[str, bool]]:
        text = line.rstrip("\r\n")
        is_blank = not text.strip()
        opening = self._opening_fence(number, text)
        html_block = None if self._fence else _HTML_BLOCK.match(text)
        self._is_indented_code = not is_blank and self._is_code_by_indent(text)
        self._is_in_table = not is_blank and (self._is_in_table or _begins_table(text, following))
        is_code = bool(self._fence or opening or html_block) or self._is_indented_code
        is_kept = is_code or is_blank or bool(_NO_TEXT.fullmatch(text))
        if is_kept or self._is_in_table or self._begins_text(text):
            yield from _joined(self._paragraph)
            self._paragraph = []
        self._fence = _fence_after(self._fence, text, opening, html_block)
        self._set_code_indent(text, is_code=is_code, is_kept=is_kept)
        title = None if is_code else _TITLE.fullmatch(text.rstrip())
        if title:
            yield from (title["before"], (title["text"], False), line[title.end("text") :])
        elif is_kept:
            yield line
        elif self._is_in_table:
            for place, cell in enumerate(_CELL_END.split(line)):
                yield from _trimmed(cell, in_cell=True) if place % 2 == 0 else (cell,)
        else:
            self._paragraph.append(line)
        self._is_after_blank = is_blank

    def _opening_fence(self, number: int, text: str) -> re.Match[str] | None:
        """Returns the fence that a line begins with, unless it begins a formula that does not end."""
        fence = _FENCE.match(text)
        is_last = number == self._last_formula_end
        return None if fence and fence[1] == _FORMULA_END and not self._fence and is_last else fence

    def _is_code_by_indent(self, text: str) -> bool:
        may_be_code = (self._is_after_blank or self._is_indented_code) and not self._fence
        return may_be_code and _indent(text) >= self._code_indent

    def _begins_text(self, text: str) -> bool:
        """Returns whether a line does not continue the paragraph before it."""
        prefix = _PREFIX.match(text)
        if prefix and prefix[0].strip(" \t>"):
            return True
        return bool(self._paragraph) and _begins_after(self._paragraph[-1], text)

    def _set_code_indent(self, text: str, *, is_code: bool, is_kept: bool) -> None:
        """An item moves code below it to the right; a line without indent ends the item."""
        item = None if is_code else _ITEM.match(text)
        if item:
            indent = _CODE_INDENT if item["note"] else len(item[0].expandtabs())
            self._code_indent = indent + _CODE_INDENT
        elif text.strip() and text[0] not in " \t" and (is_kept or self._is_after_blank):
            self._code_indent = _CODE_INDENT


def _fence_after(
    fence: str, text: str, opening: re.Match[str] | None, html_block: re.Match[str] | None
) -> str:
    """Returns what ends the code, formula or HTML that the next line is in; empty outside of them.

    Args:
        fence: The same for this line.
        text: This line.
        opening: The fence at its beginning.
        html_block: The HTML at its beginning.
    """
    if html_block:
        fence = "-->" if html_block["comment"] else f"</{html_block['name'].lower()}"
    if fence.startswith(_HTML_ENDS):
        return "" if fence in text.lower() else fence
    if fence == _FORMULA_END and _ends_formula(text):
        return ""
    if opening and not fence:
        return opening[1]
    is_closing = opening and opening[1].startswith(fence) and not text.strip(" \t>`~")
    return "" if is_closing else fence


def _begins_table(text: str, following: str) -> bool:
    return "|" in text and "|" in following and bool(_RULE.fullmatch(following.rstrip()))


def _indent(line: str) -> int:
    """Returns the columns of white space before a line."""
    expanded = line.expandtabs(_CODE_INDENT)
    return len(expanded) - len(expanded.lstrip())


def _ends_formula(line: str) -> bool:
    return line.rstrip().endswith(_FORMULA_END)


def _begins_after(line: str, following: str) -> bool:
    """Returns whether a text begins behind a heading or a break, or in a further quote."""
    is_alone = re.match(r"[ \t>]*\#{1,6}[ \t]", line) or line.rstrip("\r\n").endswith(("  ", "\\"))
    return bool(is_alone) or _quotes(following) > _quotes(line)


def _quotes(line: str) -> int:
    found = _QUOTE.match(line)
    return found[0].count(">") if found else 0


def _joined(paragraph: Sequence[str]) -> Iterator[str | tuple[str, bool]]:
    """The lines of a paragraph as one text; each line after the first may be indented or quoted."""
    if not paragraph:
        return
    first, *others = paragraph
    prefix = _PREFIX.match(first)
    start = prefix[0] if prefix else ""
    yield start
    rest = [line[match.end() :] for line in others if (match := _QUOTE.match(line))]
    joined = " ".join(line.rstrip("\r\n") for line in [first[len(start) :], *rest])
    end = paragraph[-1][len(paragraph[-1].rstrip("\r\n")) :]
    yield from _trimmed(joined + end)


def _trimmed(text: str, *, in_cell: bool = False) -> Iterator[str | tuple[str, bool]]:
    """A text without the white space, hard break and closing hashes around it, which stay."""
    core = text.rstrip()
    without_hashes = core.rstrip("#")
    if without_hashes != core and without_hashes.endswith((" ", "\t")):
        core = without_hashes.rstrip(" \t")
    core = core.removesuffix("\\").lstrip()
    if not core:
        yield text
        return
    start = text.index(core)
    yield text[:start]
    yield core, in_cell
    yield text[start + len(core) :]
