"""ⓓ Altered copies of a pair: no final stop, joined, in quotes, in capitals, typing errors, other names.

`Augmenter` chooses them by the rates of the configuration and a hash of the pair.
"""

import hashlib
import re
import struct
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import NamedTuple

from model.text.languages import canonical_code, has_unspaced_sentences, has_unspaced_words, lower, upper
from model.training.config_sections import AugmentationConfig
from model.training.data.augmentation.synthetic_entities import ANYTHING, FIGURES, THINGS, name
from model.training.data.corpus import SentencePair

AUGMENTATION_VERSION = 5
"""Raised whenever an alteration changes, so that stored tokenised text is made anew."""


_LOWER_CASE_WORD = re.compile(r"\b[^\W\d_A-ZÀ-ÖØ-Þ][^\W\d_]+")
_STOP = re.compile(r"\s*[.!?。！？…]+$")
_OPENING = "¿¡"
_MOST_JOINED = 3


@dataclass(frozen=True)
class SentenceContext:
    """The context of a pair, which its alteration may read.

    Attributes:
        source_language: Code.
        target_language: Code.
        pairs: Adjacent pairs in the corpus, including the pair itself.
    """

    source_language: str
    target_language: str
    pairs: Sequence[SentencePair]

    @cached_property
    def common_words(self) -> frozenset[str]:
        """Words in lower case anywhere in `pairs`, which therefore are not names."""
        return frozenset(
            word for pair in self.pairs for side in pair for word in _LOWER_CASE_WORD.findall(side)
        )


def without_final_stop(pair: SentencePair, _: SentenceContext, __: Random) -> SentencePair | None:
    """Both sides without their final stop; None if a side has none, or consists of it."""
    source, target = stripped(pair.source), stripped(pair.target)
    return SentencePair(source, target) if source and target else None


def stripped(text: str) -> str | None:
    """A text without its final stop and the opening Spanish mark of that stop; None if it has no stop."""
    match = _STOP.search(text)
    if match is None:
        return None
    text = text[: match.start()]
    opening = max(text.rfind(mark) for mark in _OPENING)
    has_partner = opening >= 0 and match.group().strip()[0] in "!?"
    return text[:opening] + text[opening + 1 :] if has_partner else text


def split_stop(text: str) -> tuple[str, str]:
    """A text before its final stop, and the stop with the space before it."""
    match = _STOP.search(text)
    return (text, "") if match is None else (text[: match.start()], match.group())


def joined(pair: SentencePair, context: SentenceContext, generator: Random) -> SentencePair | None:
    """The pair joined with one or two pairs of its context; None if one of them lacks its final stop."""
    pairs = [pair, *generator.choices(context.pairs, k=generator.randint(1, _MOST_JOINED - 1))]
    if not all(_STOP.search(side) for earlier in pairs[:-1] for side in earlier):
        return None
    return SentencePair(
        _gap(context.source_language).join(each.source for each in pairs),
        _gap(context.target_language).join(each.target for each in pairs),
    )


_ALL_MARKED = 0.25
_LONGEST_INSERTED = 100
_FIRST_WORD = re.compile(r"[^\W\d_]+")
_FORMAL_YOU = frozenset(("Sie", "Ihr", "Ihre", "Ihnen"))
_ENCLOSING = re.compile('[][()（）"“”„«»]')
_QUOTATION_MARKS = {"de": ("„", "“"), "fr": ("« ", " »"), "es": ("«", "»")}


def punctuated(pair: SentencePair, context: SentenceContext, generator: Random) -> SentencePair | None:
    """The pair in brackets or quotation marks, or another of its context in them before its final stop.

    Two pairs of single words are joined by a slash. None if what goes into the marks has such marks itself,
    or more than 100 characters and is not the pair.
    """
    other = generator.choice(context.pairs)
    languages = context.source_language, context.target_language
    if not any(" " in side for side in (*pair, *other)) and not any(map(has_unspaced_words, languages)):
        words = ((_inserted(each, context) for each in side) for side in zip(pair, other, strict=True))
        return SentencePair(*map("/".join, words))
    is_whole = generator.random() < _ALL_MARKED
    if not is_whole and max(map(len, other)) > _LONGEST_INSERTED:
        return None
    if any(map(_ENCLOSING.search, pair if is_whole else other)):
        return None
    kind = generator.choice(("brackets", "straight", "curved"))
    sides = []
    for mine, its, language in zip(pair, other, languages, strict=True):
        opening, closing = _enclosing(kind, language)
        body, stop = ("", "") if is_whole else split_stop(mine)
        text = mine if is_whole else _inserted(its, context)
        gap = "" if has_unspaced_words(language) or not body else " "
        sides.append(f"{body}{gap}{opening}{text}{closing}{stop}")
    return SentencePair(*sides)


def _enclosing(kind: str, language: str) -> tuple[str, str]:
    """Opening and closing marks of a kind, as a language writes them."""
    if kind == "brackets":
        return ("（", "）") if has_unspaced_words(language) else ("(", ")")
    if kind == "straight" and not has_unspaced_words(language):
        return '"', '"'
    return _QUOTATION_MARKS.get(canonical_code(language), ("“", "”"))


def _inserted(text: str, context: SentenceContext) -> str:
    """A sentence without its full stop, and without its first capital if its first word is not a name."""
    first = _FIRST_WORD.match(text)
    if first and first.group() not in _FORMAL_YOU and first.group().lower() in context.common_words:
        text = text[0].lower() + text[1:]
    return text.rstrip(".。")


def _gap(language: str) -> str:
    return "" if has_unspaced_sentences(language) else " "


_UNTYPED = re.compile("[¿¡]\\s?")
_APOSTROPHE = re.compile(r"(?<=\w)['’](?=\w)")
_MARKED = re.compile("([A-Za-z])[\u0300-\u036f]+")
_SPELT_OUT = {"ß": "ss", "œ": "oe", "æ": "ae", "ø": "o", "ł": "l", "đ": "d"}
_UMLAUTS = {"ä": "ae", "ö": "oe", "ü": "ue"}
_LONG_WORD = re.compile(r"[^\W\d_]{5,}")
_MOST_ERRORS = 2


def in_capitals(pair: SentencePair, context: SentenceContext, _: Random) -> SentencePair | None:
    """Both sides in capitals; None if the source's script has no case.

    A source without case cannot express that its translation is in capitals.
    """
    source = upper(pair.source, context.source_language)
    if source == pair.source or has_unspaced_words(context.source_language):
        return None
    return SentencePair(source, upper(pair.target, context.target_language))


def capitalised(pair: SentencePair, context: SentenceContext, _: Random) -> SentencePair | None:
    """Both sides with a first capital, as on buttons; None unless the source begins with a small letter.

    A German noun has its capital in any case, which says nothing about the translation.
    """
    if not pair.source[0].islower():
        return None
    source, target = (
        upper(side[0], language) + side[1:]
        for side, language in zip(pair, (context.source_language, context.target_language), strict=True)
    )
    return SentencePair(source, target)


def in_lower_case(pair: SentencePair, context: SentenceContext, generator: Random) -> SentencePair | None:
    """The source in lower case, the target unchanged; in half of the copies both without final stop."""
    source = lower(pair.source, context.source_language)
    if source == pair.source:
        return None
    altered = SentencePair(source, pair.target)
    bare = without_final_stop(altered, context, generator) if generator.random() < 0.5 else None
    return bare or altered


def in_plain_letters(pair: SentencePair, context: SentenceContext, generator: Random) -> SentencePair | None:
    """The source as typed on a keyboard without accents: *ou est l'hotel*, *como estas?*, *schoen*; *i cant*.

    Latin letters lose their accents, German umlauts become two letters, ¿ and ¡ are removed. Half of the
    sources that changed lose the apostrophes within words too, and so do all sources that did not change.
    Half of the results pass through `in_lower_case`. None if nothing changed.
    """
    source = _UNTYPED.sub("", _without_marks(_spelt_out(pair.source, context.source_language)))
    if source == pair.source or generator.random() < 0.5:
        source = _APOSTROPHE.sub("", source)
    if source == pair.source:
        return None
    altered = SentencePair(source, pair.target)
    small = in_lower_case(altered, context, generator) if generator.random() < 0.5 else None
    return small or altered


def with_typing_errors(
    pair: SentencePair, context: SentenceContext, generator: Random
) -> SentencePair | None:
    """One or two typing errors in long words of the source; None if there are none, or it has no spaces."""
    if has_unspaced_words(context.source_language):
        return None
    words = list(_LONG_WORD.finditer(pair.source))
    if not words:
        return None
    source = pair.source
    chosen = generator.sample(words, min(len(words), generator.randint(1, _MOST_ERRORS)))
    for match in sorted(chosen, key=lambda match: match.start(), reverse=True):
        source = source[: match.start()] + _mistyped(match.group(), generator) + source[match.end() :]
    return SentencePair(source, pair.target)


def _mistyped(word: str, generator: Random) -> str:
    """The word with one error after its first letter, or without its accents."""
    plain = _without_marks(word)
    if plain != word and generator.random() < 0.5:
        return plain
    place = generator.randrange(1, len(word) - 1)
    slip = generator.choice(("swapped", "missing", "doubled"))
    if slip == "swapped" and word[place] != word[place + 1]:
        return word[:place] + word[place + 1] + word[place] + word[place + 2 :]
    if slip == "doubled":
        return word[: place + 1] + word[place:]
    return word[:place] + word[place + 1 :]


def _spelt_out(text: str, language: str) -> str:
    """The text with letters such as ß, ø and German umlauts spelt in ASCII letters."""
    spelling = _SPELT_OUT | (_UMLAUTS if canonical_code(language) == "de" else {})

    def spelt(match: re.Match[str]) -> str:
        letters = spelling[match.group().lower()]
        if match.group().islower():
            return letters
        neighbours = match.string[max(match.start() - 1, 0) : match.end() + 1]
        return letters.upper() if neighbours.isupper() and len(neighbours) > 1 else letters.capitalize()

    return re.sub("|".join(spelling), spelt, text, flags=re.IGNORECASE)


def _without_marks(text: str) -> str:
    """The text with Latin letters without their diacritics; other scripts keep theirs."""
    return unicodedata.normalize("NFC", _MARKED.sub(r"\1", unicodedata.normalize("NFD", text)))


_LATIN = "A-Za-zÀ-ÖØ-öø-ɏ"
_NAME = rf"(?<![{_LATIN}\d_@#./-])[A-ZÀ-ÖØ-Þ][a-zß-öø-ÿ]+(?![{_LATIN}\d_@-])"
_FIGURE = rf"(?<![{_LATIN}\d.,:/$€£¥#@+-])\d+(?:[.,:]\d+)*(?![{_LATIN}\d:/%-]|[.,]\d)"
_NAME_OR_FIGURE = re.compile(f"{_NAME}|{_FIGURE}")
_IN_HAN = {"Tom": "汤姆", "Mary": "玛丽", "John": "约翰", "Boston": "波士顿"}
"""Names that Chinese sentences write in Chinese; other names are copied unchanged."""
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


def with_synthetic_entity(pair: SentencePair, context: SentenceContext, generator: Random) -> SentencePair:
    """The pair with a synthetic entity in place of a name or number that both sides share.

    If they share none, the entity is put before or after both sides. A few pairs consist of the entity
    alone.
    """
    if generator.random() < _BARE_SHARE:
        thing = generator.choice(ANYTHING)(generator)
        return SentencePair(thing, thing)
    shared = list(_shared(pair, context))
    if not shared:
        return _framed(pair, context, generator)
    ours, theirs = generator.choice(shared)
    thing = _stand_in(ours, generator)
    return SentencePair(_replaced(pair.source, ours, thing), _replaced(pair.target, theirs, thing))


def _shared(pair: SentencePair, context: SentenceContext) -> Iterator[tuple[str, str]]:
    """Names and numbers that occur exactly once on each side, as each side writes them."""
    ours, theirs = (Counter(_NAME_OR_FIGURE.findall(side)) for side in pair)
    once = {found for found, count in ours.items() if count == theirs[found] == 1}
    for found in sorted(once - {"1"}):  # "1 dog" would become "7 dog"
        if found.lower() not in context.common_words:
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


def _framed(pair: SentencePair, context: SentenceContext, generator: Random) -> SentencePair:
    """Both sides with an entity, or a list item's mark, in the same place."""
    frame = generator.choice(_FRAMES)
    thing = generator.choice(ANYTHING)(generator)
    mark = generator.choice(_MARKS).format(generator.randint(1, 20))
    return SentencePair(
        _filled(frame, pair.source, context.source_language, thing, mark),
        _filled(frame, pair.target, context.target_language, thing, mark),
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


Alteration = Callable[[SentencePair, SentenceContext, Random], SentencePair | None]

ALTERATIONS: Mapping[str, Alteration] = {
    "no_final_stop": without_final_stop,
    "capitals": in_capitals,
    "capitalised": capitalised,
    "lowercase": in_lower_case,
    "plain_letters": in_plain_letters,
    "typing_errors": with_typing_errors,
    "joined": joined,
    "punctuated": punctuated,
    "copied": with_synthetic_entity,
}

_NUMBERS = struct.Struct(f"<{len(ALTERATIONS)}I")


class Copy(NamedTuple):
    """An altered pair, and the kind of its alteration."""

    kind: str
    pair: SentencePair


class Augmenter:
    """Makes altered copies; the same pair in the same context always has the same copies."""

    def __init__(self, config: AugmentationConfig) -> None:
        self._seed = config.seed
        self._rates = config.rates

    def copies(
        self, pairs: Sequence[SentencePair], source_language: str, target_language: str
    ) -> Iterator[Copy]:
        """Copies of adjacent pairs in one direction, in their order; none is equal to its pair."""
        if not any(self._rates.values()):
            return
        context = SentenceContext(source_language, target_language, pairs)
        for pair in pairs:
            yield from self._copies(pair, context)

    def _copies(self, pair: SentencePair, context: SentenceContext) -> Iterator[Copy]:
        for kind, number in zip(ALTERATIONS, self._numbers(pair, context), strict=True):
            times = int(self._rates[kind] + number / 2**32)
            if not times:
                continue
            generator = Random(number)  # noqa: S311  nothing secret
            altered = (ALTERATIONS[kind](pair, context, generator) for _ in range(times))
            yield from (Copy(kind, copy) for copy in altered if copy is not None and copy != pair)

    def _numbers(self, pair: SentencePair, context: SentenceContext) -> tuple[int, ...]:
        """Random numbers below 2**32, one per kind; a generator per pair would take ten times as long."""
        parts = (str(self._seed), context.source_language, context.target_language, *pair)
        digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=_NUMBERS.size).digest()
        return _NUMBERS.unpack(digest)
