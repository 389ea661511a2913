"""The card of a checkpoint: name, language pairs, limits, decoding defaults. No torch."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from itertools import product
from typing import Any, Self, cast

from model.decode_request import DecodeOptions
from model.errors import UnsupportedLanguageError
from model.text.languages import is_language_code
from model.validators import require, require_given, require_integer, require_known

Pair = tuple[str, str]
Sides = tuple[tuple[str, ...], tuple[str, ...]]

_OPTIONAL = ("licence", "origin")
"""Fields that are left out where they are empty. A new field belongs here, as older cards lack it."""
_FEW_PAIRS = 100
_MOST_LANGUAGES = 2000

# Names are used in metric labels, URLs and file names.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """The description of a checkpoint for users, and for the service to route and limit requests.

    Attributes:
        name: Short name; letters, digits and `._+-`.
        version: Version of the weights, in the same characters.
        pairs: Translation directions, (source code, target code).
        max_source_length: Most source tokens of one sentence, language tag and EOS included.
        max_target_length: Most target tokens of one sentence, EOS included.
        decoding: Default options of requests.
        licence: Identifier of the licence of the weights, such as `cc-by-4.0`; empty if unknown.
        origin: Where an imported model is from, such as `Helsinki-NLP/opus-mt-en-fr`; empty for others.
    """

    name: str
    version: str
    pairs: tuple[Pair, ...]
    max_source_length: int
    max_target_length: int
    decoding: DecodeOptions = field(default_factory=DecodeOptions)
    licence: str = ""
    origin: str = ""

    def __post_init__(self) -> None:
        for label in ("name", "version"):
            value = getattr(self, label)
            fits = isinstance(value, str) and _NAME.fullmatch(value) is not None
            require(fits, label, "at most 64 letters, digits and ._+-", value)
        pairs_fit = bool(self.pairs) and all(map(_is_pair, self.pairs))
        require(pairs_fit, "pairs", "one or more pairs of language codes", self.pairs)
        require(len(set(self.pairs)) == len(self.pairs), "pairs", "without repetition", self.pairs)
        for label in ("licence", "origin"):
            value = getattr(self, label)
            require(isinstance(value, str) and value.isprintable(), label, "one line of text", value)
        require_integer("max_source_length", self.max_source_length, 2)
        require_integer("max_target_length", self.max_target_length, 1)
        self._require_length_limits(self.decoding)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """Source languages, in the order of the pairs."""
        return tuple(self._targets)

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """All languages of the pairs, in their order."""
        return tuple(dict.fromkeys(code for pair in self.pairs for code in pair))

    @cached_property
    def sides(self) -> Sides | None:
        """Sources and targets, if there are many pairs and every source goes with every other target."""
        produced = {target for _, target in self.pairs}
        targets = tuple(code for code in self.languages if code in produced)
        is_full = len(self.pairs) > _FEW_PAIRS and self.pairs == every_pair(self.sources, targets)
        return (self.sources, targets) if is_full else None

    @cached_property
    def _targets(self) -> dict[str, dict[str, None]]:
        """The targets of each source, in order."""
        targets: dict[str, dict[str, None]] = {}
        for source, target in self.pairs:
            targets.setdefault(source, {})[target] = None
        return targets

    def languages_named(self, name: str) -> Pair | None:
        """Returns the languages of `en-fr` or `pt-BR-en`; None if neither direction is translated."""
        parts = name.split("-")
        ways = (("-".join(parts[:i]), "-".join(parts[i:])) for i in range(1, len(parts)))
        return next((way for way in ways if self.translates(*way) or self.translates(*way[::-1])), None)

    def targets(self, source: str) -> tuple[str, ...]:
        """Returns the languages that `source` is translated into, in the order of the pairs."""
        return tuple(self._targets.get(source, ()))

    def translates(self, source: str, target: str) -> bool:
        """Returns whether the checkpoint translates a direction."""
        return target in self._targets.get(source, ())

    def require_pair(self, source: str, target: str) -> None:
        """Refuses a direction that the checkpoint does not translate.

        Raises:
            UnsupportedLanguageError: With `source` or `target` as the field at fault.
        """
        if source not in self._targets:
            raise UnsupportedLanguageError("source", source, self.sources)
        if not self.translates(source, target):
            raise UnsupportedLanguageError("target", target, self.targets(source))

    def options(self, given: Mapping[str, object]) -> DecodeOptions:
        """Returns the decoding defaults, overridden by a caller's values; a beam size implies beam search.

        Raises:
            ConfigError: If a value is unknown, invalid, or over the checkpoint's limit.
        """
        typed = tuple((name, type(value), value) for name, value in given.items())
        try:
            return self._known_options(typed)
        except TypeError:  # a list, which is not hashable
            return self._combined(dict(given))

    @cached_property
    def _known_options(self) -> Callable[[tuple[tuple[str, type, object], ...]], DecodeOptions]:
        """A cache, as checking options takes as long as tokenising a sentence, and clients repeat theirs."""

        @lru_cache(maxsize=256)
        def options(typed: tuple[tuple[str, type, object], ...]) -> DecodeOptions:
            return self._combined({name: value for name, _, value in typed})

        return options

    def _combined(self, given: dict[str, object]) -> DecodeOptions:
        implied = {"strategy": "beam"} if "beam_size" in given else {}
        options = DecodeOptions.from_dict(vars(self.decoding) | {"num_hypotheses": 1} | implied | given)
        self._require_length_limits(options)
        return options

    def _require_length_limits(self, options: DecodeOptions) -> None:
        limit = f"at most {self.max_target_length}, the limit max_target_length of {self.name}"
        for name in ("min_length", "max_length"):
            length = getattr(options, name)
            require(length is None or length <= self.max_target_length, name, limit, length)

    def to_dict(self) -> dict[str, object]:
        """Returns plain values, for JSON."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        sides = dict(zip(("sources", "targets"), map(list, self.sides), strict=True)) if self.sides else None
        values |= {"pairs": sides or [list(pair) for pair in self.pairs], "decoding": self.decoding.to_dict()}
        return {name: value for name, value in values.items() if value or name not in _OPTIONAL}

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> Self:
        """Returns the card of a dictionary.

        Raises:
            ConfigError: If a value is missing, unknown or invalid.
        """
        names = [each.name for each in fields(cls)]
        require_known(values, names)
        for key in names:
            require_given(key in values or key in _OPTIONAL, key)
        require(isinstance(values["decoding"], Mapping), "decoding", "an object", values["decoding"])
        decoding = DecodeOptions.from_dict(cast(Mapping[str, object], values["decoding"]))
        parsed = {**values, "pairs": _pairs(values["pairs"]), "decoding": decoding}
        return cls(**cast(dict[str, Any], parsed))


def every_pair(sources: Iterable[str], targets: Iterable[str]) -> tuple[Pair, ...]:
    """Returns every source with every other target."""
    return tuple(pair for pair in product(sources, targets) if pair[0] != pair[1])


def _pairs(value: object) -> tuple[Pair, ...]:
    """Returns the pairs of a list of pairs, or of an object of `sources` and `targets`."""
    if not isinstance(value, Mapping):
        require(isinstance(value, list), "pairs", "a list, or an object of sources and targets", value)
        return tuple(_pair(pair) for pair in cast(list[object], value))
    sides = [value.get(name) for name in ("sources", "targets")]
    are_lists = value.keys() == {"sources", "targets"} and all(
        isinstance(side, list) and len(side) <= _MOST_LANGUAGES and all(map(is_language_code, side))
        for side in sides
    )
    require(are_lists, "pairs", "sources and targets, lists of language codes", value)
    sources, targets = cast(list[list[str]], sides)
    return every_pair(sources, targets)


def _is_pair(pair: object) -> bool:
    return isinstance(pair, tuple) and len(pair) == 2 and all(map(is_language_code, pair))


def _pair(value: object) -> Pair:
    require(isinstance(value, (list, tuple)), "pairs", "a list of pairs", value)
    return cast(Pair, tuple(cast(list[object], value)))
