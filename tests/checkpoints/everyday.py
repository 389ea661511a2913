"""The inputs of `everyday.toml` that the embedded checkpoint translates, and where that is."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.checkpoint.card import Pair
from model.checkpoint.manifest import read_config
from tests.embedded import EMBEDDED


@dataclass(frozen=True, kw_only=True)
class Input:
    """What a user types, and what is asked of its translation.

    Attributes:
        pair: Source and target language.
        text: What is typed.
        accept: All right answers, where there are few; lower case, without punctuation at either end.
        keeps: What must come back letter for letter.
        same: Whether the right answer may equal the text.
        faults: Of these demands the checkpoint is known to fall short.
    """

    pair: Pair
    text: str
    accept: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ()
    same: bool = False
    faults: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{'-'.join(self.pair)}: {self.text}"


def all_inputs() -> list[Input]:
    """Every input of the file, of whatever direction."""
    directions = tomllib.loads((Path(__file__).parent / "everyday.toml").read_text("utf-8"))
    return [_input(direction, entry) for direction, entries in directions.items() for entry in entries]


def served_inputs() -> list[Input]:
    """Those of the directions that the embedded checkpoint has."""
    _, card = read_config(EMBEDDED)
    return [each for each in all_inputs() if each.pair in card.pairs]


def _input(direction: str, entry: dict[str, Any]) -> Input:
    source, target = direction.split("-")
    return Input(
        pair=(source, target),
        text=entry["text"],
        accept=tuple(entry.get("accept", ())),
        keeps=tuple(entry.get("keeps", ())),
        same=entry.get("same", False),
        faults=tuple(entry.get("faults", ())),
    )
