"""⑦ Web and mail addresses, which a translation must repeat letter for letter."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import islice
from typing import NamedTuple

# Addresses with Latin letters beyond ASCII are not matched, as only their ASCII part would be.
_END = r"(?![À-ɏ\u0300-\u036f])"
_WEB = (
    r"(?<![a-z0-9])(?:[a-z][a-z0-9+.-]{0,30}://|www\.)(?=[a-z0-9\[])[a-z0-9._~:/?#\[\]@!$&'()*+,;=%-]++"
    + _END
)
_MAIL = r"(?<![a-z0-9._%+-])[a-z0-9._%+-]{1,64}@[a-z0-9-]++(?:\.[a-z0-9-]++)++" + _END
_ADDRESS = re.compile(f"{_WEB}|{_MAIL}", re.IGNORECASE)
_LONGEST = 200

# What may be left of an address that was split: one to three runs with a space between them.
_WEB_RUN = re.compile(r"[a-z0-9._~:/?#@!$&'*+,;=%-]+", re.IGNORECASE)
_MAIL_RUN = re.compile(r"[a-z0-9._%+@-]+", re.IGNORECASE)
_MOST_RUNS = 3
_CLOSING = ".,;:!?'"
_BRACKETS = {")": "(", "]": "["}

_LEAST_LIKENESS = 0.6
_MOST_MISSING = 8
_MOST_PLACES = 100  # candidates that are compared with one address, some 50 µs each


class _Place(NamedTuple):
    """A part of a translation that may be an address; the one most like it sorts last."""

    is_address: bool
    likeness: float
    begin: int
    end: int
    address: str

    def is_apart_from(self, other: "_Place") -> bool:
        return self.end <= other.begin or other.end <= self.begin


def addresses(text: str) -> list[str]:
    """Returns the addresses in a text, in order, without the punctuation after them."""
    return [text[begin:end] for begin, end in _spans(text)]


def with_addresses(translation: str, source_addresses: Sequence[str]) -> str:
    """Returns a translation in which the addresses of its source stand letter for letter.

    The part of the translation that most resembles a missing address is replaced by the address, even if
    spaces split it (`anna@bei game.de`). An address stays missing if no part resembles it, or if more than
    eight are missing.

    Args:
        translation: Text that the network produced.
        source_addresses: What `addresses` found in the cleaned source.
    """
    if not source_addresses:
        return translation
    wanted = Counter(source_addresses)
    missing = wanted - Counter(addresses(translation))
    if not 0 < missing.total() <= _MOST_MISSING:
        return translation
    chosen: list[_Place] = []
    for place in sorted(
        (place for each in missing for place in _places(translation, each, wanted)), reverse=True
    ):
        if missing[place.address] and all(map(place.is_apart_from, chosen)):
            missing[place.address] -= 1
            chosen.append(place)
    for place in sorted(chosen, key=lambda place: place.begin, reverse=True):
        translation = translation[: place.begin] + place.address + translation[place.end :]
    return translation


def _spans(text: str) -> list[tuple[int, int]]:
    if not ("@" in text or "://" in text or "www." in text.lower()):
        return []
    matches = _ADDRESS.finditer(text)
    return [(match.start(), _end(text, *match.span())) for match in matches if len(match.group()) <= _LONGEST]


def _end(text: str, begin: int, end: int) -> int:
    """Returns the end of an address without punctuation and brackets that were opened before it."""
    while end > begin:
        last, address = text[end - 1], text[begin:end]
        opening = _BRACKETS.get(last)
        if last not in _CLOSING and (opening is None or address.count(opening) >= address.count(last)):
            break
        end -= 1
    return end


def _places(translation: str, address: str, right: Counter[str]) -> Iterator[_Place]:
    """Yields the parts that resemble an address and are not one of the correct addresses."""
    matcher = SequenceMatcher(None, b=address.lower(), autojunk=False)
    is_mail = _is_mail(address)
    found = [(*span, True) for span in _spans(translation) if _is_mail(translation[slice(*span)]) == is_mail]
    taken = [(begin, end) for begin, end, _ in found if translation[begin:end] in right]
    pieces = ((*span, False) for span in _pieces(translation, is_mail=is_mail))
    sized = (
        (begin, end, is_address)
        for begin, end, is_address in (*found, *pieces)
        if len(address) <= 2 * (end - begin) <= 4 * len(address)
        and all(end <= other_begin or other_end <= begin for other_begin, other_end in taken)
    )
    for begin, end, is_address in islice(sized, _MOST_PLACES):
        matcher.set_seq1(translation[begin:end].lower())
        if matcher.quick_ratio() >= _LEAST_LIKENESS and (likeness := matcher.ratio()) >= _LEAST_LIKENESS:
            yield _Place(is_address, likeness, begin, end, address)


def _pieces(text: str, *, is_mail: bool) -> Iterator[tuple[int, int]]:
    runs = list((_MAIL_RUN if is_mail else _WEB_RUN).finditer(text))
    for i, first in enumerate(runs):
        end = first.start() - 1
        for run in runs[i : i + _MOST_RUNS]:
            if text[end : run.start()] != " " and run is not first:
                break
            end = run.end()
            if _shows_to_be_one(text[first.start() : end], is_mail=is_mail):
                yield first.start(), _end(text, first.start(), end)


def _shows_to_be_one(piece: str, *, is_mail: bool) -> bool:
    return "@" in piece if is_mail else "://" in piece or "www" in piece.lower()


def _is_mail(address: str) -> bool:
    return "@" in address and "://" not in address
