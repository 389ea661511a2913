"""The translations of a system, their speed and their scores: for people, as JSON, and for provenance."""

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from model.checkpoint.card import Pair
from model.decode_request import DecodeOptions
from model.evaluation import METRIC_NAMES, EvaluationText
from model.evaluation.scores import (
    Estimates,
    ScoredSentence,
    TranslationScores,
    bootstrap,
    score_sentences,
    score_translations,
)
from model.translation.translator import Translator


@dataclass(frozen=True, kw_only=True)
class SystemOutput:
    """The translations of a text by one system.

    Attributes:
        name: Name and version of a checkpoint, or the name of a file.
        place: Path of the checkpoint or file; two checkpoints may have one name.
        translations: One for each sentence.
        seconds: Time from text to text, without loading and warming up; None for a file, which has no device
            and no precision either.
        device: Where the network ran.
        precision: The number type that it computed in.
    """

    name: str
    place: str
    translations: Sequence[str]
    seconds: float | None = None
    device: str = ""
    precision: str = ""

    def speed(self) -> dict[str, object]:
        """Returns the time, device, precision and sentences a second, for JSON; nothing for a file."""
        if self.seconds is None:
            return {}
        values = {"seconds": self.seconds, "device": self.device, "precision": self.precision}
        return {**values, "sentences_per_second": len(self.translations) / self.seconds}

    def speed_line(self) -> list[str]:
        """Returns the line of a report with the speed; none for a file."""
        if self.seconds is None:
            return []
        rate = f"{len(self.translations) / self.seconds:.1f} sentences/s"
        return [f"speed {rate} ({self.seconds:.2f} s, {self.device}, {self.precision})"]


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
    return SystemOutput(
        name=f"{translator.card.name} {translator.card.version}",
        place=place,
        translations=translations,
        seconds=time.perf_counter() - started,
        device=translator.device,
        precision=translator.precision,
    )


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One system in one direction.

    Attributes:
        pair: `source-target`.
        output: The translations that were evaluated.
        scores: BLEU, chrF and their signatures.
        confidence: Confidence intervals of the scores, and p-values if there is a baseline; None if not
            requested.
        baseline: The translations that were compared, if any.
        baseline_scores: Scores of the baseline with confidence intervals.
        lines: Each line with its own BLEU, if requested.
    """

    pair: str
    output: SystemOutput
    scores: TranslationScores
    confidence: Estimates | None = None
    baseline: SystemOutput | None = None
    baseline_scores: Estimates | None = None
    lines: tuple[ScoredSentence, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Returns plain values, for JSON, of what was requested."""
        values: dict[str, object] = {
            "model": self.output.name,
            "pair": self.pair,
            "sentences": len(self.output.translations),
            **self.output.speed(),
            **dataclasses.asdict(self.scores),
        }
        if self.confidence is not None:
            values["confidence"] = _plain(self.confidence)
        if self.baseline is not None and self.baseline_scores is not None:
            place = {"model": self.baseline.name, "place": self.baseline.place}
            values["against"] = {**place, **self.baseline.speed(), **_plain(self.baseline_scores)}
        if self.lines:
            values["lines"] = [dataclasses.asdict(line) for line in self.lines]
        return values

    def to_record(self) -> dict[str, object]:
        """Returns what provenance keeps: the scores, without the speed of this machine."""
        precision = {"precision": self.output.precision} if self.output.precision else {}
        return {"sentences": len(self.output.translations), **precision, **dataclasses.asdict(self.scores)}

    def __str__(self) -> str:
        return "\n".join(self._text())

    def _text(self) -> Iterator[str]:
        yield from map(str, self.lines)
        yield f"{self.output.name}, {self.pair}, {len(self.output.translations)} sentences"
        if self.confidence is None:
            yield f"BLEU  {self.scores.bleu:5.2f}  {self.scores.bleu_signature}"
            yield f"chrF  {self.scores.chrf:5.2f}  {self.scores.chrf_signature}"
        for metric, found in (self.confidence or {}).items():
            spread = f"(mean {found.mean:.2f} ± {found.interval:.2f})"
            yield f"{METRIC_NAMES[metric]}  {found.score:5.2f}  {spread}  {found.signature}"
        yield from self.output.speed_line()
        if self.baseline is not None and self.confidence is not None:
            yield f"against {self.baseline.name} ({self.baseline.place})"
            for metric, before in (self.baseline_scores or {}).items():
                found = self.confidence[metric]
                spread = f"(mean {before.mean:.2f} ± {before.interval:.2f})"
                difference = f"difference {found.score - before.score:+.2f}, p = {found.p_value:.4f}"
                yield f"{METRIC_NAMES[metric]}  {before.score:5.2f}  {spread}  {difference}"
            yield from self.baseline.speed_line()


def evaluate_output(
    text: EvaluationText,
    pair: Pair,
    output: SystemOutput,
    *,
    baseline: SystemOutput | None = None,
    resamples: int = 0,
    sentence_bleu: int | None = None,
) -> Evaluation:
    """Scores the translations of a text.

    Args:
        text: The text and its references.
        pair: The direction.
        output: Translations of the system.
        baseline: Translations of another system to compare with.
        resamples: Texts that the bootstrap draws for confidence intervals and p-values; 0 leaves them out.
        sentence_bleu: Length of the longest n-grams of each line's own BLEU; None leaves it out.
    """
    translations, target = output.translations, pair[1]
    estimates = baseline_scores = None
    if resamples:
        others = None if baseline is None else baseline.translations
        estimates, baseline_scores = bootstrap(
            translations, text.references, target, baseline=others, resamples=resamples
        )
    return Evaluation(
        pair="-".join(pair),
        output=output,
        scores=score_translations(translations, text.references, target),
        confidence=estimates,
        baseline=baseline,
        baseline_scores=baseline_scores,
        lines=() if sentence_bleu is None else score_sentences(text, translations, sentence_bleu),
    )


def _plain(estimates: Estimates) -> dict[str, object]:
    return {
        metric: {name: value for name, value in dataclasses.asdict(found).items() if value is not None}
        for metric, found in estimates.items()
    }
