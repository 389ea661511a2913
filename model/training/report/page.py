"""The report of a run: its folder is read, and becomes an HTML page with pictures."""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Self

from jinja2 import Environment, PackageLoader, StrictUndefined
from sacrebleu.metrics.chrf import CHRF

from model.checkpoint.folder import Checkpoint, load_checkpoint
from model.checkpoint.manifest import good_checkpoint, is_run_folder
from model.errors import TrainingError, TranslationError
from model.evaluation import METRIC_NAMES, Metric
from model.evaluation.scores import TranslationScores, score_translations
from model.files import atomic_folder
from model.text.languages import count_words
from model.training.report.pictures import draw_attention, write_curves
from model.training.run_folder.folder import Event, RunFolder, RunLog, Translations
from model.training.validation import TranslatedText

logger = logging.getLogger(__name__)

PAGE = "index.html"
Fact = tuple[str, str]
"""A name and its value, both to be shown."""

_SHOWN = 8
"""Sentences per kind and direction."""
_EDGES = (0, 4, 6, 9, 13, 21, 31, 51, 10**9)


@dataclass(frozen=True, kw_only=True)
class SentenceHistory:
    """Two translations of one sentence; their chrF (0 to 100) is good for ranking only.

    Attributes:
        source: The sentence.
        reference: Its reference.
        before: Translation in an earlier validation; None if there is none.
        after: Translation in the newer validation.
        chrf: chrF of `after`.
        gain: Difference in chrF; 0 without an earlier translation.
    """

    source: str
    reference: str
    before: str | None
    after: str
    chrf: float
    gain: float


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """Everything that a report shows.

    Attributes:
        name: Name of the folder.
        config: The run's configuration, in plain values.
        events: The events of its log.
        provenance: None before the first checkpoint.
        has_ended: Whether the run ended by itself; false while it trains, and after a kill.
        first: Translations of the first validation; None if none were kept.
        best: Translations of the best validation; None if none were kept.
        checkpoint: The best, else the last; None before the first.
    """

    name: str
    config: Mapping[str, Any]
    events: Sequence[Event]
    provenance: Mapping[str, Any] | None
    has_ended: bool
    first: Translations | None
    best: Translations | None
    checkpoint: Checkpoint | None

    @classmethod
    def read(cls, folder: RunFolder) -> Self:
        """Read a run's folder.

        Raises:
            TrainingError: If the folder is not a run's.
            CheckpointError: If its checkpoint is not sound.
        """
        if not folder.config.is_file():
            raise TrainingError(f"{folder.root} is not the folder of a run: it has no {folder.config.name}")
        if not is_run_folder(folder.root):
            raise TrainingError(f"{folder.root} is not the folder of a run: {folder.config} is not a run's")
        log = RunLog(folder)
        events = log.events()
        ending = _json(folder.provenance)
        if ending is not None and ending["steps"] < max((event["step"] for event in events), default=0):
            ending = None  # the run has been resumed since
        place = good_checkpoint(folder.root)
        checkpoint = None if place is None else load_checkpoint(place)
        return cls(
            name=folder.root.resolve().name,
            config=_json(folder.config) or {},
            events=events,
            provenance=ending or (checkpoint.provenance if checkpoint else None),
            has_ended=ending is not None,
            first=log.translations("first"),
            best=log.translations("best"),
            checkpoint=checkpoint,
        )

    @property
    def updates(self) -> list[Event]:
        """Logged updates."""
        return [event for event in self.events if event["kind"] == "update"]

    @property
    def validations(self) -> list[Event]:
        """Logged validations."""
        return [event for event in self.events if event["kind"] == "validation"]

    @property
    def metric(self) -> Metric:
        """The metric that chose the best checkpoint."""
        return "chrf" if self.config.get("validation", {}).get("metric") == "chrf" else "bleu"

    @property
    def best_validation(self) -> Event | None:
        """The validation with the highest score, the first of equal ones."""
        return max(self.validations, key=lambda event: float(event[self.metric]), default=None)


def _json(file: Path) -> dict[str, Any] | None:
    if not file.exists():
        return None
    values: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return values


def write_report(folder: RunFolder, *, attention: int | None = None) -> Path:
    """Write the report of a run in any state; it replaces an earlier report atomically.

    Args:
        folder: The run's folder.
        attention: Sentences of each direction whose attention is drawn; None takes `validation.heat_maps`.

    Returns:
        Path of the page.

    Raises:
        ModuleNotFoundError: Without matplotlib and jinja2, which the extra `train` brings.
        TrainingError: If the folder is not a run's.
        CheckpointError: If its checkpoint is not sound.
        OSError: If the report cannot be written; an earlier report is kept.
    """
    record = RunRecord.read(folder)
    if attention is None:
        attention = int(record.config.get("validation", {}).get("heat_maps", 0))
    with atomic_folder(folder.report) as place:
        page = _render(record, place, attention)
        (place / PAGE).write_text(page, encoding="utf-8")
    return folder.report / PAGE


def _render(record: RunRecord, place: Path, attention: int) -> str:
    """Draw the pictures in `place`, and return the page."""
    environment = Environment(
        loader=PackageLoader("model.training.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["place"] = lambda path: path.relative_to(place).as_posix()
    texts = record.best.texts if record.best else ()
    return environment.get_template(PAGE).render(
        record=record,
        metric_names=METRIC_NAMES,
        facts=summarise(record),
        curves=write_curves(record.events, place / "curves"),
        by_length={text.pair: score_by_length(text) for text in texts},
        sentences={text.pair: remarkable(_histories(record, text), _SHOWN) for text in texts},
        attention=draw_attention(record.checkpoint, texts, attention, place / "attention"),
        configuration=json.dumps(record.config, indent=2, ensure_ascii=False),
    )


def _histories(record: RunRecord, after: TranslatedText) -> list[SentenceHistory]:
    """The sentences of a direction in the best validation, and in the first one if that was another."""
    is_later = record.first is not None and record.best is not None and record.first.step < record.best.step
    texts = record.first.texts if record.first and is_later else ()
    before = next((text for text in texts if text.pair == after.pair), None)
    return sentence_histories(before, after)


def report_if_possible(folder: RunFolder) -> None:
    """Write the report of a run, or log why it cannot be written."""
    try:
        page = write_report(folder)
    except ModuleNotFoundError as missing:
        advice = f"pip install --editable '.[train]', then `dragoman report {folder.root}` writes it"
        logger.warning("no report: %s is missing; %s", missing.name, advice)
    except (TranslationError, OSError) as error:
        logger.error("no report: %s; `dragoman report %s` tries again", error, folder.root)
    except Exception:  # matplotlib raises errors of many kinds, for a broken font for example
        logger.exception("no report; `dragoman report %s` tries again", folder.root)
    else:
        logger.info("the report is %s", page)


def summarise(record: RunRecord) -> list[Fact]:
    """The facts that the report's head shows, in that order."""
    return [*_progress(record), *_network(record), *_data(record), *_speed(record), *_place(record)]


def _progress(record: RunRecord) -> Iterator[Fact]:
    provenance = record.provenance or {}
    if record.has_ended:
        yield "State", f"ended by {provenance['ended_by']}" if "ended_by" in provenance else "ended"
    else:
        yield "State", "under way, or stopped without a word"
    latest = next(reversed(record.updates), None)
    if latest is not None:
        yield "Steps", f"{latest['step']:,} ({latest['epoch']:.2f} epochs)"
        yield "Tokens seen", f"{latest['tokens']:,} (source and target, without padding)"
        yield "Time of training", _duration(latest["seconds"])
    best = record.best_validation
    if best is not None:
        yield (
            "Best validation",
            f"step {best['step']:,}, {METRIC_NAMES[record.metric]} {best[record.metric]:.2f}",
        )


def _network(record: RunRecord) -> Iterator[Fact]:
    if record.checkpoint is None:
        yield "Network", str(record.config.get("network", {}).get("preset", ""))
        return
    config = record.checkpoint.config
    layers = f"{config.num_encoder_layers} encoder and {config.num_decoder_layers} decoder layers"
    sizes = f"{config.model_dim} wide, feed-forward {config.ffn_dim}, {config.num_heads} heads"
    yield "Network", f"{layers}, {sizes}"
    yield "Parameters", f"{record.checkpoint.num_parameters:,}"
    yield "Vocabulary", f"{config.source_vocab_size:,} and {config.target_vocab_size:,} pieces"


def _data(record: RunRecord) -> Iterator[Fact]:
    data: Mapping[str, Any] = (record.provenance or {}).get("data", {})
    for name, title in (("train", "Trained on"), ("validation", "Validated on")):
        corpora = [
            f"{'↔' if c['bidirectional'] else '→'}".join(c["languages"]) + f" {_names(c)}"
            for c in data.get(name, ())
        ]
        if corpora:
            yield title, "; ".join(corpora)
    if "pairs_kept" in data:
        dropped = sum(data["pairs_dropped"].values())
        yield "Pairs", f"{data['pairs_kept']:,} kept, {dropped:,} dropped in cleaning"


def _speed(record: RunRecord) -> Iterator[Fact]:
    speeds = [event["tokens_per_second"] for event in record.updates]
    if speeds:
        yield "Throughput", f"{median(speeds):,.0f} tokens/s (median)"
    for value, title in (("mfu", "Model FLOPs utilisation"), ("padding_share", "Padding")):
        if shares := [event[value] for event in record.updates]:
            yield title, f"{median(shares):.1%} (median)"
    seconds = [event["seconds"] for event in record.validations]
    if seconds:
        yield "A validation", f"{median(seconds):.1f} s (median), {record.validations[-1]['decoder']}"


def _place(record: RunRecord) -> Iterator[Fact]:
    provenance = record.provenance or {}
    if machine := provenance.get("machine"):
        yield "Machine", f"{machine['device']}, {machine['threads']} threads, torch {machine['torch']}"
    if code := provenance.get("code"):
        yield "Code", " ".join(str(value) for value in code.values() if value)


def _names(corpus: Mapping[str, Any]) -> str:
    return ", ".join(str(file["name"]) for file in corpus["files"])


def _duration(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{seconds / 60:.1f} min"


def sentence_histories(before: TranslatedText | None, after: TranslatedText) -> list[SentenceHistory]:
    """Score every sentence in two validations.

    Args:
        before: An earlier validation of the same direction; it may lack sentences of the newer one.
        after: The newer validation.
    """
    metric = CHRF()
    earlier = {(row.source, row.reference): row.translation for row in before.rows()} if before else {}
    histories = []
    for source, reference, translation in after.rows():
        past = earlier.get((source, reference))
        chrf = float(metric.sentence_score(translation, [reference]).score)
        gain = 0.0 if past is None else chrf - float(metric.sentence_score(past, [reference]).score)
        histories.append(
            SentenceHistory(
                source=source, reference=reference, before=past, after=translation, chrf=chrf, gain=gain
            )
        )
    return histories


def remarkable(histories: Sequence[SentenceHistory], count: int) -> dict[str, list[SentenceHistory]]:
    """At most `count` sentences each: those with the lowest chrF, and those whose chrF rose or fell most."""
    gained = sorted(histories, key=lambda each: each.gain)
    return {
        "Worst": sorted(histories, key=lambda each: each.chrf)[:count],
        "Most improved": [each for each in reversed(gained) if each.gain > 0][:count],
        "Worsened": [each for each in gained if each.gain < 0][:count],
    }


@dataclass(frozen=True)
class LengthBucket:
    """Sentences with sources of similar length.

    Attributes:
        shortest: Fewest words of a source; a Han, kana or Hangul character counts as one word.
        longest: Most words; None for no bound.
        count: Number of sentences.
        scores: Scores of these sentences.
    """

    shortest: int
    longest: int | None
    count: int
    scores: TranslationScores

    def __str__(self) -> str:
        return f"{self.shortest}–{self.longest}" if self.longest else f"over {self.shortest - 1}"


def score_by_length(text: TranslatedText) -> tuple[LengthBucket, ...]:
    """Scores the sentences of each range of lengths; ranges without sentences are left out."""
    rows = [(count_words(row.source), row) for row in text.rows()]
    buckets = []
    for first, end in pairwise(_EDGES):
        found = [row for length, row in rows if first <= length < end]
        if found:
            longest = end - 1 if end < _EDGES[-1] else None
            references = [[row.reference for row in found]]
            scores = score_translations([row.translation for row in found], references, text.target_language)
            buckets.append(LengthBucket(max(first, 1), longest, len(found), scores))
    return tuple(buckets)
