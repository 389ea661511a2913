"""Train a model of examples/goals, choose its search on validation text, and score it on the test sets.

python -m benchmarks.quality.goals multi30k-de-en --data FOLDER --output runs/bench
python -m benchmarks.quality.goals tatoeba-en-fr --data FOLDER --max-minutes 9 --set run.compile=true
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

import click
import torch

from benchmarks.harness.options import benchmark, deliver
from benchmarks.harness.report import Report, Row
from benchmarks.quality.runs import (
    DATA,
    ROOT,
    UNFINISHED,
    Deadline,
    read_recipe,
    recipe_options,
    show_training_log,
    train,
)
from model.checkpoint.card import Pair
from model.checkpoint.folder import load_checkpoint
from model.checkpoint.manifest import record_evaluation
from model.cli.tune import LENGTH_PENALTIES
from model.evaluation.scores import score_translations
from model.evaluation.tuning import keep_best_search, searches, translate_with, try_searches
from model.training.config.data import CorpusConfig
from model.training.config.train_config import TrainConfig
from model.training.report.log import RunLog
from model.training.report.provenance import plain_config
from model.training.run_folder.folder import RunFolder
from model.training.validation import held_out_texts
from model.translation.translator import Translator

BEAM_SIZES = (4, 6, 8)
_OPUS = "OPUS-MT {} on the public Tatoeba test"
Evaluation = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A score to reach in one direction."""

    model: str  # name of its recipe, examples/goals/MODEL.toml
    source: str  # language code
    target: str  # language code
    bleu: float | None  # at least this much; None only reports
    published: str  # the best that others have published there

    @property
    def name(self) -> str:
        """`corpus-source-target`."""
        return f"{self.model.partition('-')[0]}-{self.source}-{self.target}"

    @property
    def recipe(self) -> Path:
        """The training file."""
        return ROOT / "examples" / "goals" / f"{self.model}.toml"

    @property
    def test(self) -> Sequence[str]:
        """Test files below the data folder, never trained or tuned on.

        They are two aligned files, or one with English in its first column.
        """
        if self.model.startswith("multi30k"):
            return [f"multi30k/test_2016_flickr.{code}.gz" for code in (self.source, self.target)]
        return [f"{self.model}/dev-test.tsv.gz"]


def _goal(corpus: str, source: str, target: str, bleu: float | None, published: str) -> Goal:
    model = f"{corpus}-en-{target if source == 'en' else source}"
    return Goal(model=model, source=source, target=target, bleu=bleu, published=published)


GOALS: Sequence[Goal] = (
    _goal("multi30k", "de", "en", 41, "36.5 (lower-cased tokens; 3-layer Transformer)"),
    _goal("multi30k", "en", "de", 40, "36.3 (OPUS-MT); about 41 tokenised, tiny text-only Transformers"),
    _goal("multi30k", "en", "fr", 60, "48.8 (OPUS-MT); about 61 tokenised"),
    _goal("multi30k", "fr", "en", None, ""),
    _goal("tatoeba", "en", "fr", 52, _OPUS.format(51.8)),
    _goal("tatoeba", "fr", "en", 58, _OPUS.format(58.3)),
    _goal("tatoeba", "en", "de", 45, _OPUS.format(44.7)),
    _goal("tatoeba", "de", "en", 53, _OPUS.format(52.7)),
    _goal("tatoeba", "en", "es", 54, _OPUS.format(53.8)),
    _goal("tatoeba", "es", "en", 59, _OPUS.format(58.8)),
    _goal("tatoeba", "en", "zh", None, _OPUS.format(31.4)),
    _goal("tatoeba", "zh", "en", None, _OPUS.format(36.1)),
)


def goals_of(name: str) -> tuple[Goal, ...]:
    """All goals of a model, which is named by itself or by one of them.

    Raises:
        click.UsageError: If the name is unknown.
    """
    models = {goal.name: goal.model for goal in GOALS} | {goal.model: goal.model for goal in GOALS}
    if name not in models:
        raise click.UsageError(f"{name!r} must be one of {', '.join(sorted(models))}")
    return tuple(goal for goal in GOALS if goal.model == models[name])


def trained_goals(name: str, pairs: Sequence[Pair]) -> tuple[Goal, ...]:
    """The goals of a model whose direction a run trains.

    Args:
        name: Name of a goal or a model; that of a model is the name of one of its goals as well.
        pairs: What the run trains.

    Raises:
        click.UsageError: If that goal itself is not among them.
    """
    goals = tuple(goal for goal in goals_of(name) if (goal.source, goal.target) in pairs)
    if name not in (goal.name for goal in goals):
        known = ", ".join(f"{source}→{target}" for source, target in pairs)
        raise click.UsageError(
            f"GOAL must be of a direction that the configuration trains ({known}), but is {name!r} instead"
        )
    return goals


@benchmark
@click.argument("name", metavar="GOAL")
@click.option(
    "--run", "folder", type=click.Path(path_type=Path), help="Folder of the run; else the recipe's."
)
@click.option("--tune-sentences", type=click.IntRange(min=0), default=0, help="For each direction; 0 is all.")
@recipe_options
def main(
    name: str,
    folder: Path | None,
    tune_sentences: int,
    data: Path | None,
    changes: dict[str, object],
    max_minutes: float,
    device: str,
    output: Path | None,
) -> None:
    """Do what is left to do for GOAL, a goal or a model: train, tune, score, report.

    The model's other goals are scored as well, if the configuration trains their direction. Everything is
    kept in the run's folder: the same command continues where the last one stopped, after a kill too. Exit
    status 75 if there is more to do after --max-minutes.
    """
    show_training_log()
    deadline = Deadline.after(max_minutes)
    config = read_recipe(goals_of(name)[0].recipe, changes, data=data, folder=folder)
    goals = trained_goals(name, config.pairs)
    report = Report(f"goals-{config.card.name}", plain_config(config), [torch.get_num_threads()])
    run = RunFolder(Path(config.run.folder))
    ending = train(config, deadline)
    if ending is None or deadline.is_past:
        _stop(f"{run.root} is not finished yet: give the same command again")
    best = run.best_checkpoint
    tune(best, config, device=device, sentences=tune_sentences)
    found = list(score(best, goals, data or DATA, device=device, deadline=deadline))
    if len(found) < len(goals):
        _stop("not all is scored yet: give the same command again")
    signatures = dict.fromkeys(str(each[key]) for _, each in found for key in each if "signature" in key)
    on_gpu = f" on {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    report.notes += [
        f"Trained {ending.step:,} steps, {ending.tokens:,} tokens, {ending.minutes:.0f} minutes{on_gpu}; "
        f"ended by {ending.reason}.",
        "The search was chosen on validation text. " + "; ".join(f"`{each}`" for each in signatures),
    ]
    results = [{**asdict(goal), "name": goal.name, **each} for goal, each in found]
    report.add("Goals", [_row(goal, each) for goal, each in found], "goal", results)
    # Figures alone: samples are text of the corpus, which may not be passed on.
    validations = [
        {key: value for key, value in event.items() if isinstance(value, int | float)}
        for event in RunLog(run.log).events("validation")
    ]
    report.add("Validation", [_point(event) for event in validations], "validation", validations)
    deliver(report, output)
    click.echo(f"Checkpoint: {best}", err=True)


def tune(folder: Path, config: TrainConfig, *, device: str, sentences: int = 0) -> None:
    """Give a checkpoint the search with the best BLEU on its run's validation text, unless it has one."""
    if "tuning" in load_checkpoint(folder).provenance:
        return
    translator = Translator.load(folder, device=device)
    texts = held_out_texts(config.validation_corpora, sentences)
    candidates = searches(translator.card.decoding, BEAM_SIZES, LENGTH_PENALTIES)
    trials = list(try_searches(texts, candidates, translate_with(translator)))
    files = [corpus.path for corpus in config.validation_corpora]
    keep_best_search(folder, translator.card, trials, "bleu", files)


def score(
    folder: Path, goals: Sequence[Goal], data: Path, *, device: str, deadline: Deadline
) -> Iterator[tuple[Goal, Evaluation]]:
    """Each goal's evaluation, kept in the checkpoint; fewer than all if the deadline comes.

    The text goes through the decoder as a user's does, sentence by sentence, with second attempts.
    """
    translator = Translator.load(folder, device=device)
    known = load_checkpoint(folder).provenance.get("evaluations")
    evaluations = known if isinstance(known, dict) else {}
    for goal in goals:
        found = evaluations.get(goal.name)
        if found is None or found["checksum"] != translator.checksum:
            if deadline.is_past:
                return
            found = _evaluation(translator, goal, data)
            record_evaluation(folder, goal.name, found)
        yield goal, found


def _evaluation(translator: Translator, goal: Goal, data: Path) -> Evaluation:
    files = [str(data / name) for name in goal.test]
    columns = (0, 1) if goal.source == "en" or len(files) > 1 else (1, 0)
    corpus = CorpusConfig(
        path=files[0],
        target_path=files[1] if len(files) > 1 else None,
        source_language=goal.source,
        target_language=goal.target,
        source_column=columns[0],
        target_column=columns[1],
    )
    (text,) = held_out_texts([corpus], max_sentences=0)
    translations = translator.translate(text.sources, source=goal.source, target=goal.target)
    scores = score_translations([each.text for each in translations], [text.references], goal.target)
    return {
        **vars(scores),
        "sentences": len(text.sources),
        "beam_size": translator.card.decoding.beam_size,
        "length_penalty": translator.card.decoding.length_penalty,
        "precision": translator.precision,
        "device": translator.device,
        "checksum": translator.checksum,
    }


def _row(goal: Goal, found: Evaluation) -> Row:
    gap = 0.0 if goal.bleu is None else goal.bleu - found["bleu"]
    return {
        "goal": goal.name,
        "BLEU": f"{found['bleu']:.1f}",
        "aim": "–" if goal.bleu is None else f"≥ {goal.bleu:g}",
        "": "" if goal.bleu is None else "reached" if gap <= 0 else f"{gap:.1f} short",
        "chrF": f"{found['chrf']:.1f}",
        "sentences": f"{found['sentences']:,}",
        "search": f"beam {found['beam_size']}, penalty {found['length_penalty']:g}, {found['precision']}",
        "best published": goal.published or "–",
    }


def _point(event: Mapping[str, Any]) -> Row:
    names = ("epoch", "cross_entropy", "bleu", "chrf")
    headings = ("epoch", "cross entropy", "BLEU", "chrF")
    figures = {shown: f"{event[name]:.2f}" for name, shown in zip(names, headings, strict=True)}
    return {"step": f"{event['step']:,}", **figures}


def _stop(message: str) -> NoReturn:
    click.echo(message, err=True)
    raise click.exceptions.Exit(UNFINISHED)


if __name__ == "__main__":
    main()
