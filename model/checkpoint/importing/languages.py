"""Languages and licence of a foreign model: its README, names and tags."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from model.checkpoint.card import Pair
from model.errors import CheckpointError
from model.text.languages import known_code, language_code, language_codes

_MOST_README_BYTES = 2**20
_FRONT_MATTER = re.compile(r"---\s*\n(.*?)\n---", re.DOTALL)
_LICENCE = re.compile(r"^licen[sc]e:\s*(?:\n\s*-\s*)?[\"']?([\w.+-]+)", re.MULTILINE)
# As in Argos packages, whose READMEs have no front matter.
_LICENCE_IN_TEXT = re.compile(
    r"\blicen[cs]ed?\b(?:\W+(?:under|the|is))*\W+(?!licen[cs])([^\n]{2,80})", re.IGNORECASE
)
_NAMED = re.compile(r"opus-mt-(?:tc-(?:base|big|bible-big)-)?([A-Za-z_]+)-([A-Za-z_]+)$")


@dataclass(frozen=True)
class Readme:
    """What a README says of a model.

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

    Raises:
        CheckpointError: If the model names no languages and neither does the user, or it lacks the user's.
    """
    if pair is None:
        if not known:
            raise CheckpointError(f"{where} does not name its languages: name them, as in `--pair en-fr`")
        return list(known)
    sources = list(dict.fromkeys(source for source, _ in known)) or [pair[0]]
    targets = list(tags) or list(dict.fromkeys(target for _, target in known)) or [pair[1]]
    source, target = known_code(pair[0], sources), known_code(pair[1], targets)
    if source is None or target is None or (known and (source, target) not in known):
        own = f"from {', '.join(sources)} " if known else ""
        raise CheckpointError(
            f"{where} does not translate {pair[0]}-{pair[1]} of `--pair`, but {own}into {', '.join(targets)}"
        )
    return [(source, target)]


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
