"""③ Glossaries: terms of the source that have a given translation.

A sentence is read with the translation in place of the term (code-switching, Dinu et al. 2019,
https://aclanthology.org/P19-1294), which networks mostly copy and fit the other words to. The decoder is
required to produce it (`DecodeRequest.phrases`), for where a network does not.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from model.errors import InputError
from model.text.languages import UNSPACED_LETTER
from model.text.normalisation import clean, no_space_after_marks

if TYPE_CHECKING:
    from model.text.tokenizer import Tokenizer

MAX_ENTRIES = 10_000
MAX_TERM_LENGTH = 200
"""In characters, of a term and of its translation."""
_APOSTROPHES = ("l'", "d'")
_ELIDES = re.compile("[aeiouyhàâäéèêëîïôöùûœæ]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Term:
    """A term that a sentence contains.

    Attributes:
        source: The term, as it stands in the glossary.
        target: Its translation.
        is_glued: Whether something other than white space precedes it, such as a bracket.
    """

    source: str
    target: str
    is_glued: bool = False

    def count_in(self, translation: str) -> int:
        """Returns how often a translation contains the translation of the term, in any casing and spacing."""
        target, text = (
            no_space_after_marks(" ".join(clean(each).lower().split())) for each in (self.target, translation)
        )
        return text.count(target)

    def spellings(self, tokenizer: "Tokenizer") -> tuple[tuple[int, ...], ...]:
        """Returns the ids by which the translation may be spelt; none if the vocabulary cannot spell it.

        It may begin with a capital. It may stand inside a word, if the term does or if the target language
        has no spaces; otherwise behind an apostrophe, if it begins with a vowel or an H.
        """
        begins_inside = self.is_glued or UNSPACED_LETTER.match(self.target) is not None
        words = dict.fromkeys((self.target, _with_capital(self.target)))
        found = dict.fromkeys(_ids(tokenizer, word) for word in words)
        if not begins_inside:
            words = dict.fromkeys((self.target,) if _ELIDES.match(self.target) else ())
        for elided in _APOSTROPHES:
            before = _ids(tokenizer, elided)
            for together in (_ids(tokenizer, elided + word) for word in words):
                if before and together[: len(before)] == before:
                    found[together[len(before) - (not begins_inside) :]] = None
        return tuple(ids for ids in found if ids and tokenizer.unk_id not in ids)


class Glossary:
    """Terms and their translations.

    Terms are found as whole words, the longest first. A term in lower case may begin with a capital in the
    text, as its translation then does in the sentence that is read.

    Args:
        entries: The translation of each term. White space around either is ignored; empty ones too.

    Attributes:
        entries: The same, cleaned.
        numbers: The numbers in the translations.
    """

    def __init__(self, entries: Mapping[str, str]) -> None:
        self.entries = {
            clean(source).strip(): clean(target).strip()
            for source, target in entries.items()
            if source.strip() and target.strip()
        }
        self.numbers = frozenset(re.findall(r"\d+", " ".join(self.entries.values())))
        self._by_key: dict[str, list[str]] = {}
        for source in self.entries:
            self._by_key.setdefault(source.lower(), []).append(source)
        self._lengths = sorted({len(source) for source in self.entries}, reverse=True)

    def of_targets(self) -> "Glossary":
        """Returns the glossary of a second translation, which must keep the translations of this one."""
        return Glossary({target: target for target in self.entries.values()})

    def apply(self, text: str, *, ignores_case: bool = False) -> tuple[str, tuple[Term, ...]]:
        """Returns a cleaned sentence with translations in place of its terms, and these terms in order.

        Args:
            text: The sentence.
            ignores_case: Whether terms are found in any casing; so they are at the beginning in any case.
        """
        if not self.entries:
            return text, ()
        parts, terms, end = [], list[Term](), 0
        for start, stop, source in self.matches(text, ignores_case=ignores_case):
            target = self.entries[source]
            is_raised = text[start].isupper() and source[0].islower()
            before = text[start - 1 : start]
            terms.append(Term(source, target, bool(before) and not before.isspace()))
            parts += [text[end:start], _with_capital(target) if is_raised else target]
            end = stop
        return "".join([*parts, text[end:]]), tuple(terms)

    def matches(self, text: str, *, ignores_case: bool = False) -> Iterator[tuple[int, int, str]]:
        """Yields start and end of each term in a cleaned sentence, and the term, in order."""
        start, is_beginning = 0, True
        while start < len(text):
            found = self._longest_at(text, start, ignores_case or is_beginning)
            is_beginning = is_beginning and not text[start].isalnum()
            if found is None:
                start += 1
            else:
                yield start, start + len(found), found
                start += len(found)

    def _longest_at(self, text: str, start: int, ignores_case: bool) -> str | None:
        if not _is_boundary(text, start):
            return None
        for length in self._lengths:
            part = text[start : start + length]
            if not _is_boundary(text, start + length):
                continue
            for source in self._by_key.get(part.lower(), ()):
                if ignores_case or part in (source, _with_capital(source)):
                    return source
        return None


def read_entries(text: str, field: str, *, is_csv: bool = False) -> dict[str, str]:
    """Returns the entries of a table with the columns term and translation; further columns are ignored.

    Args:
        text: Lines with a tab between the columns; blank ones are ignored.
        field: Name of the table in error messages.
        is_csv: Whether the columns are separated by commas, and may be quoted.

    Raises:
        InputError: See `checked_entries`; or if a line has fewer than two columns.
    """
    lines = text.splitlines()
    rows: Iterable[Sequence[str]] = csv.reader(lines) if is_csv else (line.split("\t") for line in lines)
    pairs = []
    for number, row in enumerate(rows, 1):
        if len(row) > 1:
            pairs.append((row[0], row[1]))
        elif any(map(str.strip, row)):
            raise InputError(
                f"`{field}` must have two columns in each line, but line {number} has one", field
            )
    return checked_entries(pairs, field)


def checked_entries(pairs: Sequence[tuple[str, str]], field: str) -> dict[str, str]:
    """Returns the entries of a glossary, without white space around them.

    Raises:
        InputError: If there are none or too many, one is empty or too long, or a term has two translations.
    """
    if not 1 <= len(pairs) <= MAX_ENTRIES:
        raise InputError(f"`{field}` must have from 1 to {MAX_ENTRIES} entries, but has {len(pairs)}", field)
    entries: dict[str, str] = {}
    for number, (source, target) in enumerate(pairs, 1):
        source, target = source.strip(), target.strip()
        for text in (source, target):
            if not 1 <= len(text) <= MAX_TERM_LENGTH:
                bounds = f"from 1 to {MAX_TERM_LENGTH} characters"
                raise InputError(f"`{field}`: entry {number} must have {bounds}, but has {len(text)}", field)
        if entries.setdefault(source, target) != target:
            raise InputError(f"`{field}`: the term of entry {number} has another translation already", field)
    return entries


def _is_boundary(text: str, place: int) -> bool:
    """Returns whether a word may begin or end here; between letters of scripts without spaces, any may."""
    before, after = text[place - 1 : place] if place else "", text[place : place + 1]
    if not (_is_letter(before) and _is_letter(after)):
        return True
    return UNSPACED_LETTER.match(before) is not None or UNSPACED_LETTER.match(after) is not None


def _is_letter(character: str) -> bool:
    return character.isalnum() or character == "_"


def _with_capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _ids(tokenizer: "Tokenizer", text: str) -> tuple[int, ...]:
    return tuple(tokenizer.encode_target(text)[:-1])
