"""ⓓ Pairs that hold something to carry over: the same made-up thing on both sides."""

import re
from collections import Counter
from random import Random

from model.training.data.augmentation.inventions import ANYTHING, FIGURES, THINGS, name
from model.training.data.augmentation.sentences import split_stop
from model.training.data.augmentation.surroundings import Surroundings, base, is_spaceless
from model.training.data.corpus import SentencePair

_LATIN = "A-Za-zÀ-ÖØ-öø-ɏ"
_NAME = re.compile(rf"(?<![{_LATIN}\d_@#./-])[A-ZÀ-ÖØ-Þ][a-zß-öø-ÿ]+(?![{_LATIN}\d_@-])")
_FIGURE = re.compile(rf"(?<![{_LATIN}\d.,:/$€£¥#@+-])\d+(?:[.,:]\d+)*(?![{_LATIN}\d:/%-])")
_BARE_SHARE = 0.06
_REPLACED_BY_NAME = 0.75
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
    figures, names = _shared(_FIGURE, pair), _shared(_NAME, pair)
    figures = [figure for figure in figures if figure != "1"]  # "1 dog" is no "7 dog"
    names = [each for each in names if each.lower() not in around.common_words]
    if figures and (not names or generator.random() < 0.5):
        return _replaced(pair, _FIGURE, generator.choice(figures), generator.choice(FIGURES)(generator))
    if names:
        invention = name if generator.random() < _REPLACED_BY_NAME else generator.choice(THINGS)
        return _replaced(pair, _NAME, generator.choice(names), invention(generator))
    return _framed(pair, around, generator)


def _shared(pattern: re.Pattern[str], pair: SentencePair) -> list[str]:
    """What is found exactly once on either side."""
    ours, theirs = (Counter(pattern.findall(side)) for side in pair)
    return [found for found, count in ours.items() if count == theirs[found] == 1]


def _replaced(pair: SentencePair, pattern: re.Pattern[str], found: str, thing: str) -> SentencePair:
    def change(match: re.Match[str]) -> str:
        return thing if match.group() == found else match.group()

    return SentencePair(pattern.sub(change, pair.source), pattern.sub(change, pair.target))


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
    opening, closing = ("（", "）") if is_spaceless(language) else (" (", ")")
    colon = "：" if is_spaceless(language) else _COLONS.get(base(language), ": ")
    return frame.format(
        text=text,
        body=body,
        stop=stop,
        thing=thing,
        mark=mark,
        opening=opening,
        closing=closing,
        colon=colon,
    )
