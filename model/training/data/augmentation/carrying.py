"""ⓓ Pairs that hold something to carry over: the same made-up thing on both sides."""

import re
from collections import Counter
from collections.abc import Iterator
from random import Random

from model.text.language_codes import canonical_code, has_unspaced_words
from model.training.data.augmentation.inventions import ANYTHING, FIGURES, THINGS, name
from model.training.data.augmentation.sentences import split_stop
from model.training.data.augmentation.surroundings import Surroundings
from model.training.data.corpus import SentencePair

_LATIN = "A-Za-zÀ-ÖØ-öø-ɏ"
_NAME = rf"(?<![{_LATIN}\d_@#./-])[A-ZÀ-ÖØ-Þ][a-zß-öø-ÿ]+(?![{_LATIN}\d_@-])"
_FIGURE = rf"(?<![{_LATIN}\d.,:/$€£¥#@+-])\d+(?:[.,:]\d+)*(?![{_LATIN}\d:/%-]|[.,]\d)"
_NAME_OR_FIGURE = re.compile(f"{_NAME}|{_FIGURE}")
_IN_HAN = {"Tom": "汤姆", "Mary": "玛丽", "John": "约翰", "Boston": "波士顿"}
"""Names that Chinese sentences write in their own script; others are to be carried over as they are."""

_BARE_SHARE = 0.06
_NAMES_SHARE = 0.75
_FRAMES = (
    "{text} {thing}",
    "{body} {thing}{stop}",
    "{body}{opening}{thing}{closing}{stop}",
    "{thing} {text}",
    "{thing}{colon}{text}",
    "{body}{colon}{thing}",
    "{mark} {text}",
)
_MARKS = ("-", "•", "*", "{}.", "{})", "({})")
_COLONS = {"fr": " : "}


def with_something_carried(pair: SentencePair, around: Surroundings, generator: Random) -> SentencePair:
    """The pair with another thing in the place of a name or number that both sides share.

    Where they share none it is put in front of both or behind them. A few of these pairs are
    nothing but the thing.
    """
    if generator.random() < _BARE_SHARE:
        thing = generator.choice(ANYTHING)(generator)
        return SentencePair(thing, thing)
    shared = list(_shared(pair, around))
    if not shared:
        return _framed(pair, around, generator)
    ours, theirs = generator.choice(shared)
    thing = _stand_in(ours, generator)
    return SentencePair(_replaced(pair.source, ours, thing), _replaced(pair.target, theirs, thing))


def _shared(pair: SentencePair, around: Surroundings) -> Iterator[tuple[str, str]]:
    """Names and figures that stand exactly once on either side, as each side writes them."""
    ours, theirs = (Counter(_NAME_OR_FIGURE.findall(side)) for side in pair)
    once = {found for found, count in ours.items() if count == theirs[found] == 1}
    for found in sorted(once - {"1"}):  # "1 dog" is no "7 dog"
        if found.lower() not in around.common_words:
            yield found, found
    for latin, han in _IN_HAN.items():
        if ours[latin] == pair.target.count(han) == 1:
            yield latin, han
        if pair.source.count(han) == theirs[latin] == 1:
            yield han, latin


def _stand_in(found: str, generator: Random) -> str:
    if found[0].isdigit():
        return generator.choice(FIGURES)(generator)
    return (name if generator.random() < _NAMES_SHARE else generator.choice(THINGS))(generator)


def _replaced(text: str, found: str, thing: str) -> str:
    if _NAME_OR_FIGURE.fullmatch(found) is None:
        return text.replace(found, thing)
    return _NAME_OR_FIGURE.sub(lambda match: thing if match.group() == found else match.group(), text)


def _framed(pair: SentencePair, around: Surroundings, generator: Random) -> SentencePair:
    """Both sides with a thing or an item's mark in the same place."""
    frame = generator.choice(_FRAMES)
    thing = generator.choice(ANYTHING)(generator)
    mark = generator.choice(_MARKS).format(generator.randint(1, 20))
    return SentencePair(
        _filled(frame, pair.source, around.source_language, thing, mark),
        _filled(frame, pair.target, around.target_language, thing, mark),
    )


def _filled(frame: str, text: str, language: str, thing: str, mark: str) -> str:
    body, stop = split_stop(text)
    opening, closing = ("（", "）") if has_unspaced_words(language) else (" (", ")")
    return frame.format(
        text=text,
        body=body,
        stop=stop,
        thing=thing,
        mark=mark,
        opening=opening,
        closing=closing,
        colon="：" if has_unspaced_words(language) else _COLONS.get(canonical_code(language), ": "),
    )
