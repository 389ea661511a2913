"""The reader of a format: what it returns, and how it reads and refuses configuration, languages and licence.

No torch.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, TypeVar, cast

from model.checkpoint.card import Pair
from model.checkpoint.manifest import read_json
from model.checkpoint.shortlist import Shortlist
from model.checkpoint.weights_writer import Read
from model.config import TransformerConfig
from model.errors import CheckpointError, ConfigError
from model.text.languages import is_language_code, known_code, language_code, language_codes
from model.text.tokenizer import TokenizerSettings

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._+-]+")
_LONGEST_NAME = 64
Value = TypeVar("Value")
_MOST_README_BYTES = 2**20
_FRONT_MATTER = re.compile(r"---\s*\n(.*?)\n---", re.DOTALL)
_LICENCE = re.compile(r"^licen[sc]e:\s*(?:\n\s*-\s*)?[\"']?([\w.+-]+)", re.MULTILINE)
# As in Argos packages, whose READMEs have no front matter.
_LICENCE_IN_TEXT = re.compile(
    r"\blicen[cs]ed?\b(?:\W+(?:under|the|is))*\W+(?!licen[cs])([^\n]{2,80})", re.IGNORECASE
)
_NAMED = re.compile(r"opus-mt-(?:tc-(?:base|big|bible-big)-)?([A-Za-z_]+)-([A-Za-z_]+)$")


@dataclass(frozen=True, kw_only=True)
class ForeignText:
    """All that a checkpoint needs to know of text.

    Attributes:
        settings: The tokenizer's settings.
        models: Content or path of the tokenizer's model files, by our file names.
        vocabularies: The piece of every id, by our file names; empty if the model files number the ids.
        pairs: Translation directions.
        files: The files that were read, as far as provenance.json shall name them.
        start_id: The decoder's first input where the target language decides it.
    """

    settings: TokenizerSettings
    models: Mapping[str, bytes | Path]
    vocabularies: Mapping[str, Sequence[str]]
    pairs: Sequence[Pair]
    files: Sequence[Path] = ()
    start_id: int | None = None


@dataclass(frozen=True, kw_only=True)
class ForeignModel:
    """A model of another framework in our terms.

    Attributes:
        config: Shape of our network.
        tensors: How to read each parameter, by our names, tied ones once.
        text: Tokenizer and languages.
        name: Name of the model.
        max_source_length: Most source tokens of one sentence, tag and EOS included.
        max_target_length: Most target tokens of one sentence, EOS included.
        decoding: Values of DecodeOptions that give the original's default search, suppressed ids included.
        licence: Identifier of the licence, such as `cc-by-4.0`; empty if the origin does not say.
        shortlist: The target tokens that a sentence may be translated with.
        files: The files that were read, whose checksums provenance.json records.
        origin: Further JSON values for provenance.json.
        owner: Keeps temporary files alive.
    """

    config: TransformerConfig
    tensors: Mapping[str, Read]
    text: ForeignText
    name: str
    max_source_length: int
    max_target_length: int
    decoding: Mapping[str, object]
    licence: str = ""
    shortlist: Shortlist | None = None
    files: Collection[Path]
    origin: Mapping[str, object] = field(default_factory=dict)
    owner: object = None


class Reader(Protocol):
    """The module of a format. Importing it is cheap: torch is imported when `read` needs it."""

    def recognises(self, path: Path) -> bool:
        """Returns whether a file or folder has this format, by its names and first bytes."""
        ...

    def read(self, path: Path, pair: Pair | None) -> ForeignModel:
        """Reads a model; `pair` chooses among the languages that it names, or names them."""
        ...


def refusal(where: Path | str, name: str, requirement: str, value: object) -> CheckpointError:
    """Returns the error for a field of a file that cannot be imported."""
    shown = repr(value)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    return CheckpointError(f"{where}: `{name}` must be {requirement}, but is {shown} instead")


def network_config(where: Path | str, values: Mapping[str, object]) -> TransformerConfig:
    """Returns the configuration of our network."""
    try:
        return TransformerConfig.from_dict(values)
    except ConfigError as error:
        raise CheckpointError(f"{where}: {error}") from error


def card_name(*names: object, default: str) -> str:
    """Returns the name of a checkpoint, made of the first of some names that has letters or digits."""
    cleaned = (
        _NOT_IN_NAMES.sub("-", name)[:_LONGEST_NAME].strip("._+-") for name in names if isinstance(name, str)
    )
    return next((name for name in cleaned if name), default)


class Fields:
    """The values of one JSON or YAML object; a value that is missing or null has the library's default.

    Args:
        path: The file.
        values: Its values.
        defaults: The library's.
        part: Name of the object, if the file holds other things too.
    """

    def __init__(
        self, path: Path, values: Mapping[str, object], defaults: Mapping[str, object], part: str = ""
    ) -> None:
        self.path, self._part = path, part
        self._values = {**defaults, **{name: value for name, value in values.items() if value is not None}}

    @classmethod
    def read(cls, path: Path, defaults: Mapping[str, object], *, is_optional: bool = False) -> "Fields":
        """Reads a file, which may be missing if it is optional."""
        return cls(path, {} if is_optional and not path.is_file() else read_json(path), defaults)

    def get(self, name: str) -> object:
        """Returns a value as it is; None if there is none."""
        return self._values.get(name)

    def integer(self, name: str, least: int = 0) -> int:
        """Returns an integer of at least `least`."""
        value = self.get(name)
        if type(value) is not int or value < least:
            raise self.refusal(name, f"an integer of at least {least}")
        return value

    def optional_integer(self, name: str) -> int | None:
        """Returns an integer of at least 0, or None if there is none."""
        return None if self.get(name) is None else self.integer(name)

    def number(self, name: str) -> float:
        """Returns a number."""
        value = self.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.refusal(name, "a number")
        return value

    def flag(self, name: str) -> bool:
        """Returns true or false."""
        value = self.get(name)
        if not isinstance(value, bool):
            raise self.refusal(name, "true or false")
        return value

    def text(self, name: str) -> str:
        """Returns a text; empty if there is none."""
        value = self.get(name)
        if not isinstance(value, str | None):
            raise self.refusal(name, "a text")
        return value or ""

    def texts(self, name: str) -> list[str]:
        """Returns a list of texts."""
        value = self.get(name)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.refusal(name, "a list of texts")
        return value

    def text_by_name(self, name: str) -> dict[str, str]:
        """Returns an object whose values are texts."""
        value = self.get(name)
        if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
            raise self.refusal(name, "an object of texts")
        return value

    def pairs(self, name: str) -> list[Pair]:
        """Returns a list of translation directions."""
        value = self.get(name)
        for pair in value if isinstance(value, list) else [value]:
            if not isinstance(pair, list) or len(pair) != 2 or not all(map(is_language_code, pair)):
                raise refusal(self._where, name, "pairs of language codes", pair)
        return [(source, target) for source, target in cast(list[list[str]], value)]

    def choice(self, name: str, choices: Mapping[str, Value]) -> Value:
        """Returns what one of several texts means."""
        value = self.get(name)
        if not isinstance(value, str) or value not in choices:
            raise self.refusal(name, f"one of {', '.join(choices)}")
        return choices[value]

    def same(self, name: str, other: str) -> int:
        """Returns an integer that two fields have in common."""
        if self.get(name) != self.get(other):
            raise self.refusal(other, f"{name} ({self.get(name)})")
        return self.integer(name, 1)

    def only(self, name: str, *allowed: object) -> None:
        """Refuses a value that is not one of those that can be computed."""
        if self.get(name) not in (None, *allowed):
            raise self.refusal(name, " or ".join(map(repr, allowed)) or "absent")

    def refuse_others(self, known: Collection[str]) -> None:
        """Refuses a field of another name."""
        for name in self._values.keys() - set(known):
            raise self.refusal(name, f"one of {', '.join(known)}")

    def refusal(self, name: str, requirement: str) -> CheckpointError:
        """Returns the error for a field that cannot be imported."""
        return refusal(self._where, name, requirement, self.get(name))

    @property
    def _where(self) -> str:
        return f"{self.path}: {self._part}" if self._part else str(self.path)


@dataclass(frozen=True)
class Readme:
    """Information of a README about its model.

    Attributes:
        licence: Identifier of the licence; empty if it does not say.
        sources: Source languages as OPUS-MT's notes list them, in our codes.
        targets: Target languages in the same way.
    """

    licence: str = ""
    sources: Sequence[str] = ()
    targets: Sequence[str] = ()

    @classmethod
    def read(cls, folder: Path) -> "Readme":
        """Reads the README of a folder, which may be missing."""
        path = folder / "README.md"
        if not path.is_file():
            return cls()
        with path.open("rb") as file:
            text = file.read(_MOST_README_BYTES).decode("utf-8", errors="replace")
        front = _FRONT_MATTER.match(text)
        licence = _LICENCE.search(front[1]) if front else _LICENCE_IN_TEXT.search(text)
        return cls(
            licence[1].strip(" .*_`#") if licence else "", _listed(text, "source"), _listed(text, "target")
        )


def _listed(text: str, side: str) -> Sequence[str]:
    found = re.search(rf"\b{side} languages?(?:\(s\))?:\**\s*`?([\w ,()>-]+)", text, re.IGNORECASE)
    names = re.findall(r"[A-Za-z]{2,3}(?:_[A-Za-z]+)*", found[1]) if found else []
    return list(language_codes(names).values())


def chosen_pairs(
    where: Path, known: Sequence[Pair], pair: Pair | None, tags: Mapping[str, str] = MappingProxyType({})
) -> list[Pair]:
    """Returns the directions of a model: those it names, or the one that the user names.

    Args:
        where: Folder of the model, for messages.
        known: The directions that the model names.
        pair: The user's choice; the model's own directions must include it, if it names any.
        tags: Piece of each target language, if there are such pieces.
    """
    if pair is None:
        if not known:
            raise CheckpointError(f"{where} does not name its languages: name them, as in `--pair en-fr`")
        return list(known)
    sources = list(dict.fromkeys(source for source, _ in known)) or [_shortest(pair[0])]
    targets = list(tags) or list(dict.fromkeys(target for _, target in known)) or [_shortest(pair[1])]
    source, target = known_code(pair[0], sources), known_code(pair[1], targets)
    if source is None or target is None or (known and (source, target) not in known):
        own = f"from {', '.join(sources)} " if known else ""
        raise CheckpointError(
            f"{where} does not translate {pair[0]}-{pair[1]} of `--pair`, but {own}into {', '.join(targets)}"
        )
    return [(source, target)]


def _shortest(code: str) -> str:
    """Returns a user's code with the shortest code of its language: `eng` and `eng_Latn` are `en`."""
    language, *details = code.split("-")
    bare = language_code(language) or language
    if details:
        return "-".join([bare, *details])
    # NLLB names every script; the one of Traditional Chinese tells languages apart.
    return known_code(code, (bare, f"{bare}-Hant")) or bare


def named_sides(folder: Path, source: str, target: str, *, is_guessed: bool) -> tuple[str | None, str | None]:
    """Returns the languages of an OPUS-MT model: those of its settings, else a guess by its folder's name."""
    named = _NAMED.search(folder.name) if is_guessed else None
    sides = zip((source, target), named.groups() if named else ("", ""), strict=True)
    first, second = (language_code(given) or language_code(other) for given, other in sides)
    return first, second


def language_tags(pieces: Iterable[str]) -> dict[str, str]:
    """Returns the pieces that stand for languages, by our codes."""
    return {code: piece for piece, code in language_codes(pieces).items()}


def used_tags(tags: Mapping[str, str], pairs: Sequence[Pair]) -> dict[str, str]:
    """Returns the tags of the languages that are translated."""
    used = {code for pair in pairs for code in pair}
    return {code: piece for code, piece in tags.items() if code in used}
