"""ⓔ Validation's translations as they were at first and at best: what the report compares.

Two files however long the run is, each replaced as a whole.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from model.training.held_out import TranslatedText
from model.whole import write_text_whole

Moment = Literal["first", "best"]
_MOMENTS: tuple[Moment, ...] = ("first", "best")


@dataclass(frozen=True)
class Translations:
    """What a validation translated.

    Attributes:
        step: When.
        texts: One for each direction.
    """

    step: int
    texts: tuple[TranslatedText, ...]

    def to_json(self) -> str:
        """As a file holds it."""
        return json.dumps({"step": self.step, "texts": [vars(t) for t in self.texts]}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The same back."""
        values: dict[str, Any] = json.loads(text)
        return cls(values["step"], tuple(TranslatedText(**_with_tuples(t)) for t in values["texts"]))


class KeptTranslations:
    """The files.

    Args:
        folder: Where they are; made when there is something to keep.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, translations: Translations, *, is_best: bool) -> None:
        """Keep a validation's, as the best if it is, and as the first if there is none."""
        self._folder.mkdir(parents=True, exist_ok=True)
        wanted = {"first": not self._file("first").exists(), "best": is_best}
        for moment in _MOMENTS:
            if wanted[moment]:
                write_text_whole(self._file(moment), translations.to_json())

    def read(self, moment: Moment) -> Translations | None:
        """Those of a moment; None if there are none."""
        file = self._file(moment)
        return Translations.from_json(file.read_text(encoding="utf-8")) if file.exists() else None

    def rewind(self, step: int) -> None:
        """Forget what was translated after `step`: it is going to happen again."""
        for moment in _MOMENTS:
            found = self.read(moment)
            if found is not None and found.step > step:
                self._file(moment).unlink()

    def _file(self, moment: Moment) -> Path:
        return self._folder / f"{moment}.json"


def _with_tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
