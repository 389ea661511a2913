"""⑦ Web and mail addresses, which a translation repeats letter for letter or gets wrong."""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, NamedTuple

_SIGNS: Final = ("://", "www.", "@")
"""What holds none of them holds no address."""

_ADDRESS = re.compile(
    r"(?<![A-Za-z0-9])(?:[a-z][a-z0-9+.-]*://|www\.)[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+"
    r"|[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+",
    re.IGNORECASE,
)
_RUN = re.compile(r"[!-~]+")
_CLOSING = ".,;:!?)]'\""
_OPENING = "([\"'"
_MOST_RUNS = 3
_LEAST_LIKENESS = 0.6
_MOST_MISSING = 8  # comparing takes some milliseconds for so many


class _Place(NamedTuple):
    """Where in a translation something stands that may be an address, and how like one it is."""

    likeness: float
    begin: int
    end: int
    address: str


def addresses(text: str) -> list[str]:
    """The addresses in a text, in order, without the punctuation behind them."""
    if not any(sign in text for sign in _SIGNS):
        return []
    return [match.group().rstrip(_CLOSING) for match in _ADDRESS.finditer(text)]


def with_addresses(translation: str, source: str) -> str:
    """A translation in which the addresses of its source stand letter for letter.

    What resembles a missing address most takes its spelling, even if it fell to pieces
    (`anna@bei game.de`). An address that nothing resembles stays missing, and so do more than eight.

    Args:
        translation: As the network has it.
        source: What was translated.
    """
    wanted = addresses(source)
    if not wanted:
        return translation
    present = addresses(translation)
    missing = [address for address in wanted if address not in present]
    if not 0 < len(missing) <= _MOST_MISSING:
        return translation
    open_text = _ADDRESS.sub(lambda match: _blank_if_right(match.group(), wanted), translation)
    places = sorted((place for address in missing for place in _places(open_text, address)), reverse=True)
    chosen: list[_Place] = []
    for place in places:
        if all(place.address != other.address and _apart(place, other) for other in chosen):
            chosen.append(place)
    for place in sorted(chosen, key=lambda place: place.begin, reverse=True):
        translation = translation[: place.begin] + place.address + translation[place.end :]
    return translation


def _blank_if_right(found: str, wanted: Sequence[str]) -> str:
    return " " * len(found) if found.rstrip(_CLOSING) in wanted else found


def _places(text: str, address: str) -> Iterator[_Place]:
    """Where one to three neighbouring runs of ASCII resemble the address enough."""
    runs = list(_RUN.finditer(text))
    matcher = SequenceMatcher(None, b=address.lower(), autojunk=False)
    for first in range(len(runs)):
        for last in runs[first : first + _MOST_RUNS]:
            begin, end = runs[first].start(), last.end()
            begin += len(text[begin:end]) - len(text[begin:end].lstrip(_OPENING))
            end -= len(text[begin:end]) - len(text[begin:end].rstrip(_CLOSING))
            matcher.set_seq1(text[begin:end].lower())
            if matcher.real_quick_ratio() >= _LEAST_LIKENESS <= matcher.quick_ratio():
                likeness = matcher.ratio()
                if likeness >= _LEAST_LIKENESS:
                    yield _Place(likeness, begin, end, address)


def _apart(one: _Place, other: _Place) -> bool:
    return one.end <= other.begin or other.end <= one.begin
