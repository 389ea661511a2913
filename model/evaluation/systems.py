"""The translations of a system that is evaluated, and how fast it made them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from model.checkpoint.card import Pair
from model.request import DecodeOptions
from model.translation.translator import Translator


@dataclass(frozen=True, kw_only=True)
class Speed:
    """How fast a checkpoint translated.

    Attributes:
        sentences: Number of lines.
        seconds: Time from text to text, without loading and warming up.
        device: Where the network ran.
        precision: The number type that it computed in.
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
        """Returns plain values, for JSON."""
        return {
            "seconds": self.seconds,
            "device": self.device,
            "precision": self.precision,
            "sentences_per_second": self.sentences_per_second,
        }

    def __str__(self) -> str:
        rate = f"{self.sentences_per_second:.1f} sentences/s"
        return f"{rate} ({self.seconds:.2f} s, {self.device}, {self.precision})"


@dataclass(frozen=True, kw_only=True)
class SystemOutput:
    """The translations of a text by one system.

    Attributes:
        name: Name and version of a checkpoint, or the name of a file.
        place: Path of the checkpoint or file; two checkpoints may have one name.
        translations: One for each sentence.
        speed: None for a file.
    """

    name: str
    place: str
    translations: Sequence[str]
    speed: Speed | None = None


def translate_text(
    translator: Translator,
    place: str,
    sources: Sequence[str],
    pair: Pair,
    *,
    options: DecodeOptions | None,
    progress: Callable[[int], object],
) -> SystemOutput:
    """Translates a text and measures the time, after a first sentence to warm up.

    Args:
        translator: The checkpoint.
        place: The folder that it was loaded from.
        sources: Sentences; errors name them `line 1`, `line 2`, ….
        pair: The direction.
        options: How to decode; None uses the checkpoint's defaults.
        progress: Called with the number of sentences done since the last call.
    """
    source, target = pair
    translator.translate(sources[:1], source=source, target=target, options=options, fields=["line 1"])
    started = time.perf_counter()
    translations = translator.translate(
        sources,
        source=source,
        target=target,
        options=options,
        fields=[f"line {number}" for number in range(1, len(sources) + 1)],
        progress=progress,
    )
    speed = Speed(
        sentences=len(translations),
        seconds=time.perf_counter() - started,
        device=translator.device,
        precision=translator.precision,
    )
    name = f"{translator.card.name} {translator.card.version}"
    return SystemOutput(name=name, place=place, translations=translations, speed=speed)
