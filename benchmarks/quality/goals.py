"""Train a model of examples/goals, choose its search on validation text, and score it on the test sets.

python -m benchmarks.quality.goals multi30k-de-en --data FOLDER --output runs/bench
python -m benchmarks.quality.goals tatoeba-en-fr --data FOLDER --set run.compile=true
"""

import json
import logging
import sys
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import torch

from benchmarks.harness.options import FILE, FOLDER, benchmark, deliver
from benchmarks.harness.report import Report, Row
from model.checkpoint.card import Pair
from model.checkpoint.folder import load_checkpoint
from model.checkpoint.manifest import record_evaluation
from model.cli.tune import LENGTH_PENALTIES
from model.evaluation.scores import score_translations
from model.evaluation.tuning import keep_best_search, searches, translate_with, try_searches
from model.training.config.data import CorpusConfig
from model.training.config.train_config import TrainConfig, load_train_config, merged, paths
from model.training.data.corpus import held_out_texts
from model.training.distributed.device import tuned_cpu
from model.training.run import open_run
from model.training.run_folder.folder import RunFolder
from model.training.run_folder.provenance import plain_config
from model.translation.translator import Translator

ROOT = Path(__file__).parents[2]
DATA = ROOT / "data"
"""Where the files in examples/ expect the corpora."""
BEAM_SIZES = (4, 6, 8)
UNFINISHED = 75
"""Exit status of an interrupted training: the system's own for `try again later`."""
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


def trained_goals(name: str, pairs: Sequence[Pair]) -> tuple[Goal, ...]:
    """The goals of a model whose direction a run trains.

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


def goals_of(name: str) -> tuple[Goal, ...]:
    """All goals of the model of a goal."""
    (model,) = {goal.model for goal in GOALS if goal.name == name}
    return tuple(goal for goal in GOALS if goal.model == model)


def assigned(assignments: Sequence[str]) -> dict[str, Any]:
    """Sections with the values of `section.name=value`; a bare word is text, later values replace earlier.

    Raises:
        click.UsageError: If one of them is no assignment.
    """
    changes: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        for text in (assignment, f"{name} = {json.dumps(value)}") if equals else ():
            with suppress(tomllib.TOMLDecodeError):
                changes = merged(changes, tomllib.loads(text))
                break
        else:
            raise click.UsageError(f"{assignment!r} must be section.name=value")
    return changes


def read_recipe(
    files: Sequence[Path],
    changes: Mapping[str, Any],
    *,
    data: Path | None = None,
    folder: Path | None = None,
) -> TrainConfig:
    """Training files with changes; corpora in `data/` are those of another folder, if one is given.

    Raises:
        ConfigError: If the configuration cannot work.
    """
    if folder is not None:
        changes = merged(changes, {"run": {"folder": str(folder)}})
    values = load_train_config(files, changes).to_dict()
    for table, name in paths(values):
        place = Path(table[name]).resolve()
        if data is not None and place.is_relative_to(DATA):
            table[name] = str(data / place.relative_to(DATA))
    return TrainConfig.from_dict(values)


@benchmark
@click.argument("name", metavar="GOAL", type=click.Choice([goal.name for goal in GOALS]))
@click.option("--run", "folder", type=FOLDER, help="Folder of the run; by default the recipe's.")
@click.option("--data", type=FOLDER, help="Folder with multi30k, tatoeba-en-fr, …; data/ by default.")
@click.option("--with", "files", type=FILE, multiple=True, help="TOML file laid over the recipe; repeatable.")
@click.option("--set", "assignments", metavar="SECTION.NAME=VALUE", multiple=True, help="One value.")
@click.option("--tune-sentences", type=click.IntRange(min=0), default=0, help="For each direction; 0 is all.")
@click.option("--device", default="auto", help="Where to translate.")
@click.option("--output", type=FOLDER, help="Folder for Markdown and JSON.")
def main(
    name: str,
    folder: Path | None,
    data: Path | None,
    files: Sequence[Path],
    assignments: Sequence[str],
    tune_sentences: int,
    device: str,
    output: Path | None,
) -> None:
    """Do what is left to do for GOAL: train its model, tune, score, report.

    The model's other goals are scored as well, if the configuration trains their direction. The run's folder
    keeps all results, so that the same command continues after an interruption or a kill. Exit status 75 if
    the training was interrupted.
    """
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S", stream=sys.stderr)
    logging.getLogger("model").setLevel(logging.INFO)
    recipes = [goals_of(name)[0].recipe, *files]
    config = read_recipe(recipes, assigned(assignments), data=data, folder=folder)
    goals = trained_goals(name, config.pairs)
    report = Report(f"goals-{config.card.name}", plain_config(config), [torch.get_num_threads()])
    folders = RunFolder(Path(config.run.folder))
    report.notes.append(train(config))
    best = folders.best_checkpoint
    tune(best, config, device=device, sentences=tune_sentences)
    found = score(best, goals, data or DATA, device=device)
    signatures = dict.fromkeys(str(each[key]) for each in found for key in each if "signature" in key)
    report.notes.append(
        "The search was chosen on validation text. " + "; ".join(f"`{s}`" for s in signatures)
    )
    rows = [_row(goal, each) for goal, each in zip(goals, found, strict=True)]
    results = [{**asdict(goal), "name": goal.name, **each} for goal, each in zip(goals, found, strict=True)]
    report.add("Goals", rows, "goal", results)
    deliver(report, output)
    click.echo(f"Checkpoint: {best}", err=True)


def train(config: TrainConfig) -> str:
    """Begin a run, or continue it to its end; returns a sentence about it.

    Raises:
        TranslationError: As open_run.
    """
    with tuned_cpu(config.run.threads):
        run = open_run(config, resume=True)
        reason = run.run()
    if reason == "interrupted":
        click.echo(f"{config.run.folder} is not finished yet: give the same command again", err=True)
        raise click.exceptions.Exit(UNFINISHED)
    position = run.trainer.position
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "a CPU"
    work = f"{position.step:,} steps, {position.tokens:,} tokens, {position.seconds / 60:.0f} minutes"
    return f"Trained {work} on {device}; ended by {reason}."


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


def score(folder: Path, goals: Sequence[Goal], data: Path, *, device: str) -> list[Evaluation]:
    """Each goal's evaluation, recorded in the checkpoint.

    The text goes through the decoder as a user's does, sentence by sentence, with second attempts.
    """
    translator = Translator.load(folder, device=device)
    evaluations = {goal.name: _evaluation(translator, goal, data) for goal in goals}
    for name, evaluation in evaluations.items():
        record_evaluation(folder, name, evaluation)
    return list(evaluations.values())


def _evaluation(translator: Translator, goal: Goal, data: Path) -> Evaluation:
    files = [str(data / name) for name in goal.test]
    columns = (1, 2) if goal.source == "en" or len(files) > 1 else (2, 1)
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


if __name__ == "__main__":
    main()
