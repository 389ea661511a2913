"""Where translations come from: a checkpoint that translates, or a file that holds them."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from model.cli.evaluation.text import EvaluationText
from model.cli.options import progress_bar
from model.errors import CorpusError

if TYPE_CHECKING:
    from model.checkpoint.card import Pair
    from model.translation.translator import Translator


@dataclass(frozen=True, kw_only=True)
class Speed:
    """How fast something translated.

    Attributes:
        sentences: How many lines.
        seconds: From text to text, without loading and warming up.
        device: Where.
        precision: In what.
    """

    sentences: int
    seconds: float
    device: str
    precision: str

    @property
    def sentences_per_second(self) -> float:
        """Lines over seconds."""
        return self.sentences / self.seconds

    def to_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        return {
            "seconds": self.seconds,
            "device": self.device,
            "precision": self.precision,
            "sentences_per_second": self.sentences_per_second,
        }

    def __str__(self) -> str:
        rate = f"{self.sentences_per_second:.1f} sentences/s"
        return f"{rate} ({self.seconds:.2f} s, {self.device}, {self.precision})"


@dataclass(frozen=True)
class Translated:
    """What a system made of a text.

    Attributes:
        translations: One for each source.
        speed: None where they were there already.
    """

    translations: list[str]
    speed: Speed | None = None


class System(Protocol):
    """Something with translations."""

    @property
    def name(self) -> str:
        """What people call it."""

    @property
    def place(self) -> str:
        """Where it is: two checkpoints may have one name."""

    def translate(self, text: EvaluationText, pair: "Pair") -> Translated:
        """Its translations of a text."""


@dataclass(frozen=True)
class CheckpointSystem:
    """A checkpoint that has been loaded; see System.

    Attributes:
        place: The folder it was loaded from.
        translator: The checkpoint.
        decoding: How to decode, where not by its own defaults.
    """

    place: str
    translator: "Translator"
    decoding: Mapping[str, object]

    @property
    def name(self) -> str:
        """Name and version."""
        return f"{self.translator.card.name} {self.translator.card.version}"

    def translate(self, text: EvaluationText, pair: "Pair") -> Translated:
        """See System; with a progress bar on a terminal."""
        translator, (source, target) = self.translator, pair
        options = translator.card.options(self.decoding) if self.decoding else None
        fields = [f"line {number}" for number in range(1, len(text.sources) + 1)]
        translator.translate(
            text.sources[:1], source=source, target=target, options=options, fields=fields[:1]
        )
        with progress_bar("sentences") as bar:
            started = time.perf_counter()
            found = translator.translate(
                text.sources,
                source=source,
                target=target,
                options=options,
                fields=fields,
                progress=bar.update,
            )
            seconds = time.perf_counter() - started
        speed = Speed(
            sentences=len(found), seconds=seconds, device=translator.device, precision=translator.precision
        )
        return Translated([translation.text for translation in found], speed)


@dataclass(frozen=True)
class TranslationsFile:
    """A file with a translation a line; see System.

    Attributes:
        path: The file.
        limit: How many of its lines count; None is all of them.
    """

    path: Path
    limit: int | None = None

    @property
    def name(self) -> str:
        """Of the file."""
        return self.path.name

    @property
    def place(self) -> str:
        """The file."""
        return str(self.path)

    def translate(self, text: EvaluationText, pair: "Pair") -> Translated:
        """See System.

        Raises:
            CorpusError: If it cannot be read, or has more or fewer lines than the text.
        """
        from model.training.data.corpus import read_lines

        found = list(islice(read_lines(self.path), self.limit))
        if len(found) != len(text.sources):
            raise CorpusError(f"{self.path}: {len(found)} translations of {len(text.sources)} sentences")
        return Translated(found)
