"""The translations of a system, their speed and their scores: for people, as JSON, and for provenance."""

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from model.checkpoint.card import Pair
from model.decode_request import DecodeOptions
from model.evaluation import METRIC_NAMES
from model.evaluation.scores import ScoredSentence, TranslationScores, score_sentences, score_translations
from model.evaluation.significance import Estimates, bootstrap
from model.evaluation.text import EvaluationText
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
            **_speed(self.output),
            **dataclasses.asdict(self.scores),
        }
        if self.confidence is not None:
            values["confidence"] = _plain(self.confidence)
        if self.baseline is not None and self.baseline_scores is not None:
            place = {"model": self.baseline.name, "place": self.baseline.place}
            values["against"] = {**place, **_speed(self.baseline), **_plain(self.baseline_scores)}
        if self.lines:
            values["lines"] = [dataclasses.asdict(line) for line in self.lines]
        return values

    def to_record(self) -> dict[str, object]:
        """Returns what provenance keeps: the scores, without the speed of this machine."""
        speed = self.output.speed
        precision = {"precision": speed.precision} if speed else {}
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
        if self.output.speed is not None:
            yield f"speed {self.output.speed}"
        if self.baseline is not None and self.confidence is not None:
            yield f"against {self.baseline.name} ({self.baseline.place})"
            for metric, before in (self.baseline_scores or {}).items():
                found = self.confidence[metric]
                spread = f"(mean {before.mean:.2f} ± {before.interval:.2f})"
                difference = f"difference {found.score - before.score:+.2f}, p = {found.p_value:.4f}"
                yield f"{METRIC_NAMES[metric]}  {before.score:5.2f}  {spread}  {difference}"
            if self.baseline.speed is not None:
                yield f"speed {self.baseline.speed}"


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


def _speed(output: SystemOutput) -> dict[str, object]:
    if output.speed is None:
        return {}
    names = ("seconds", "device", "precision", "sentences_per_second")
    return {name: getattr(output.speed, name) for name in names}


def _plain(estimates: Estimates) -> dict[str, object]:
    return {
        metric: {name: value for name, value in dataclasses.asdict(found).items() if value is not None}
        for metric, found in estimates.items()
    }
