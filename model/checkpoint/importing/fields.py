"""ⓕ Values of a model's configuration, checked by type."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from model.checkpoint.importing.foreign import read_object, refusal
from model.errors import CheckpointError

Value = TypeVar("Value")


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
    def read(cls, path: Path, defaults: Mapping[str, object]) -> "Fields":
        """Reads a file.

        Raises:
            CheckpointError: If it is no JSON object.
        """
        return cls(path, read_object(path), defaults)

    def with_defaults(self, defaults: Mapping[str, object]) -> "Fields":
        """Returns the same values, with defaults for those that are missing."""
        return Fields(self.path, self._values, defaults, self._part)

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
        return float(value)

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

    def refusal(self, name: str, requirement: str) -> CheckpointError:
        """Returns the error for a field that cannot be imported."""
        where = f"{self.path}: {self._part}" if self._part else self.path
        return refusal(where, name, requirement, self.get(name))
