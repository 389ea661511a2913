"""What `dragoman evaluate` says of a direction: for people, as JSON, and for the checkpoint's provenance."""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from model.cli.evaluation.systems import Speed
from model.evaluation import METRIC_NAMES

if TYPE_CHECKING:
    from model.evaluation.scores import ScoredSentence, TranslationScores
    from model.evaluation.significance import Estimates


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """What the system is compared with.

    Attributes:
        model: Name and version of a checkpoint, or of a file.
        place: Where it is.
        scores: BLEU, chrF and how sure they are.
        speed: None where it is a file.
    """

    model: str
    place: str
    scores: "Estimates"
    speed: Speed | None

    def to_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        speed = self.speed.to_dict() if self.speed else {}
        return {"model": self.model, "place": self.place, **speed, **_plain(self.scores)}


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One system in one direction.

    Attributes:
        model: Name and version of the checkpoint, or of the file of translations.
        pair: `source-target`.
        translations: One for each line; not part of what is shown.
        scores: BLEU, chrF and their signatures.
        speed: None where translations came from a file.
        confidence: How sure the scores are, and whether they differ from the baseline's; if asked for.
        against: What it was compared with, if anything.
        lines: Each line with its own BLEU, where that was asked for.
    """

    model: str
    pair: str
    translations: Sequence[str]
    scores: "TranslationScores"
    speed: Speed | None
    confidence: "Estimates | None" = None
    against: Baseline | None = None
    lines: "tuple[ScoredSentence, ...]" = ()

    def to_dict(self) -> dict[str, object]:
        """Plain values, for JSON; what was not asked for is left out."""
        values: dict[str, object] = {
            "model": self.model,
            "pair": self.pair,
            "sentences": len(self.translations),
        }
        values |= (self.speed.to_dict() if self.speed else {}) | dataclasses.asdict(self.scores)
        if self.confidence is not None:
            values["confidence"] = _plain(self.confidence)
        if self.against is not None:
            values["against"] = self.against.to_dict()
        if self.lines:
            values["lines"] = [dataclasses.asdict(line) for line in self.lines]
        return values

    def to_record(self) -> dict[str, object]:
        """What provenance keeps: the scores, not the speed of this machine."""
        precision = {"precision": self.speed.precision} if self.speed else {}
        return {"sentences": len(self.translations), **precision, **dataclasses.asdict(self.scores)}

    def __str__(self) -> str:
        return "\n".join(self._text())

    def _text(self) -> Iterator[str]:
        yield from map(str, self.lines)
        yield f"{self.model}, {self.pair}, {len(self.translations)} sentences"
        if self.confidence is None:
            yield f"BLEU  {self.scores.bleu:5.2f}  {self.scores.bleu_signature}"
            yield f"chrF  {self.scores.chrf:5.2f}  {self.scores.chrf_signature}"
        else:
            yield from _sure_scores(self.confidence)
        if self.speed is not None:
            yield f"speed {self.speed}"
        if self.against is not None and self.confidence is not None:
            yield f"against {self.against.model} ({self.against.place})"
            yield from _differences(self.confidence, self.against.scores)
            if self.against.speed is not None:
                yield f"speed {self.against.speed}"


def _sure_scores(estimates: "Estimates") -> Iterator[str]:
    for metric, found in estimates.items():
        spread = f"(mean {found.mean:.2f} ± {found.interval:.2f})"
        yield f"{METRIC_NAMES[metric]}  {found.score:5.2f}  {spread}  {found.signature}"


def _differences(estimates: "Estimates", baseline: "Estimates") -> Iterator[str]:
    for metric, before in baseline.items():
        found = estimates[metric]
        spread = f"(mean {before.mean:.2f} ± {before.interval:.2f})"
        difference = f"difference {found.score - before.score:+.2f}, p = {found.p_value:.4f}"
        yield f"{METRIC_NAMES[metric]}  {before.score:5.2f}  {spread}  {difference}"


def _plain(estimates: "Estimates") -> dict[str, object]:
    return {
        metric: {name: value for name, value in dataclasses.asdict(found).items() if value is not None}
        for metric, found in estimates.items()
    }
