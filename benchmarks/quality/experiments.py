"""Train variants of one recipe for equally many steps, and compare what they translate.

python -m benchmarks.quality.experiments examples/experiments/multi30k.toml --data FOLDER --steps 3000

An experiment is a file; its paths are relative to it:

    base = "../goals/multi30k-en-de.toml"
    steps = 3000                              # of each variant
    every.network.model_dim = 128             # laid over the base for all of them

    [variants."no smoothing"]
    objective.label_smoothing = 0.0

    [searches."beam 2"]                       # optional: each variant is translated with each search
    beam_size = 2

The base without a change of its own comes first, as `as it is`.
"""

import json
import re
import statistics
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import click
import torch

from benchmarks.harness.options import benchmark, several
from benchmarks.harness.report import Report, Row
from benchmarks.quality.runs import (
    ROOT,
    UNFINISHED,
    Deadline,
    Ending,
    read_recipe,
    recipe_options,
    show_training_log,
    train,
)
from model.errors import DivergenceError
from model.evaluation.tuning import translate_with, try_searches
from model.files import write_text_atomically
from model.request import DecodeOptions
from model.training.config.files import anchored, merged
from model.training.config.train_config import TrainConfig
from model.training.report.log import RunLog
from model.training.run_folder.folder import RunFolder
from model.training.validation import held_out_texts
from model.translation.translator import Translator

Changes = Mapping[str, Any]
UNCHANGED = "as it is"
_KEYS = ("base", "steps", "every", "variants", "searches")
_JUDGED = "judged.json"
# Sentences that a run itself translates at its end: it is judged afterwards, by all.
_FEW = 50


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A file: the base, changes for all variants and for each by name, and decode options by name."""

    name: str
    base: Path
    steps: int
    every: Changes
    variants: Mapping[str, Changes]
    searches: Mapping[str, Changes]

    def config(self, variant: str, seed: int, *, data: Path | None, runs: Path) -> TrainConfig:
        """The training configuration of a variant: equally many updates for all, none stops early.

        Raises:
            ConfigError: If the variant cannot work.
        """
        judged_at_the_end = {
            "validation": {"every": self.steps, "max_sentences": _FEW, "samples": 0},
            "run": {"plots": False},
        }
        length = {"max_steps": self.steps, "max_minutes": 0, "max_epochs": 0, "seed": seed}
        changes = merged(merged(judged_at_the_end, self.every), self.variants[variant])
        changes = merged(changes, {"run": length, "validation": {"patience": 0}})
        folder = runs / self.name / f"{_slug(variant)}-{seed}"
        return read_recipe(self.base, changes, data=data, folder=folder)


def read_experiment(file: Path, changes: Changes, steps: int | None) -> Experiment:
    """The experiment that a file describes, with changes laid over its own and steps in place of its own.

    Raises:
        click.UsageError: If it is not such a file.
    """
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{file} cannot be read as TOML: {error}") from error
    if not set(values) <= set(_KEYS) or "base" not in values or not (steps or values.get("steps")):
        raise click.UsageError(
            f"{file} must hold base, steps and variants, and nothing but {', '.join(_KEYS)}"
        )
    variants = {UNCHANGED: {}, **values.get("variants", {})}
    slugs = [_slug(name) for name in variants]
    if alike := [name for name in variants if slugs.count(_slug(name)) > 1]:
        raise click.UsageError(
            f"{file}: {' and '.join(alike)} would share a folder: use other letters or figures"
        )
    return Experiment(
        name=file.stem,
        base=file.parent / values["base"],
        steps=steps or values["steps"],
        every=merged(anchored(values.get("every", {}), file.parent), changes),
        variants={name: anchored(each, file.parent) for name, each in variants.items()},
        searches=values.get("searches", {}),
    )


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-")


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """One run with one search: BLEU and chrF, means over the directions, and all scores by direction.

    The recipe's own search has an empty name.
    """

    search: str
    bleu: float
    chrf: float
    scores: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One run of a variant."""

    variant: str
    seed: int
    judgements: Sequence[Judgement] = ()  # one for each search; none if the run diverged
    ending: Ending | None = None  # how the run ended; None if it diverged
    cross_entropy: float | None = None  # −log P of the references a target token, in nats
    failure: str = ""  # why there is nothing to judge; empty otherwise


def run_variant(
    variant: str,
    config: TrainConfig,
    searches: Mapping[str, Changes],
    *,
    sentences: int,
    device: str,
    deadline: Deadline,
) -> Outcome | None:
    """Train a variant as far as the deadline allows, and judge it by translating validation text.

    What is found stays in the run's folder, so that nothing is done twice.

    Args:
        variant: Its name.
        config: Configuration of its run.
        searches: Decode options by name; empty for the recipe's own.
        sentences: Sentences of each direction; 0 for all.
        device: Where to translate.
        deadline: Nothing long is begun after it; None is returned if there is more to do.
    """
    try:
        ending = train(config, deadline)
    except DivergenceError as error:  # a finding too: the other variants must still run
        return Outcome(variant=variant, seed=config.run.seed, failure=str(error))
    if ending is None or deadline.is_past:
        return None
    folder = RunFolder(Path(config.run.folder))
    wanted = {name: dict(values) for name, values in (searches or {"": {}}).items()}
    question = {"step": ending.step, "sentences": sentences, "searches": wanted}
    kept = folder.root / _JUDGED
    answer = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else None
    if answer is None or answer["question"] != question:
        judgements = _judge(folder.checkpoints / "last", config, wanted, sentences, device)
        answer = {"question": question, "judgements": [asdict(each) for each in judgements]}
        write_text_atomically(kept, json.dumps(answer, indent=1, ensure_ascii=False) + "\n")
    return Outcome(
        variant=variant,
        seed=config.run.seed,
        ending=ending,
        cross_entropy=RunLog(folder.log).events("validation")[-1]["cross_entropy"],
        judgements=[Judgement(**each) for each in answer["judgements"]],
    )


def _judge(
    checkpoint: Path, config: TrainConfig, searches: Mapping[str, Changes], sentences: int, device: str
) -> list[Judgement]:
    translator = Translator.load(checkpoint, device=device)
    texts = held_out_texts(config.validation_corpora, sentences)
    options = [DecodeOptions.from_dict({**vars(config.decoding), **each}) for each in searches.values()]
    trials = try_searches(texts, options, translate_with(translator))
    return [
        Judgement(
            search=name,
            bleu=trial.score("bleu"),
            chrf=trial.score("chrf"),
            scores={"-".join(pair): vars(scores) for pair, scores in trial.scores.items()},
        )
        for name, trial in zip(searches, trials, strict=True)
    ]


@benchmark
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--steps", type=click.IntRange(min=1), help="Steps of each variant, instead of the file's.")
@click.option("--variant", "chosen", multiple=True, help="Only these, besides the unchanged one.")
@several("seed", "seeds", None, [1], "Each variant is trained once a seed; may be repeated.")
@click.option("--sentences", type=click.IntRange(min=0), default=0, help="For each direction; 0 is all.")
@click.option(
    "--runs",
    type=click.Path(file_okay=False, path_type=Path),
    default=ROOT / "runs" / "experiments",
    help="Folder of the runs.",
)
@recipe_options
def main(
    file: Path,
    steps: int | None,
    chosen: Sequence[str],
    seeds: Sequence[int],
    sentences: int,
    runs: Path,
    data: Path | None,
    changes: dict[str, object],
    max_minutes: float,
    device: str,
    output: Path | None,
) -> None:
    """Compare the variants of FILE, one after the other; the table is written after each.

    The same command continues where the last one stopped, after a kill too. Exit status 75 if there is more
    to do after --max-minutes.
    """
    show_training_log()
    deadline = Deadline.after(max_minutes)
    experiment = read_experiment(file, changes, steps)
    if unknown := [name for name in chosen if name not in experiment.variants]:
        raise click.UsageError(f"--variant {unknown[0]!r} must be one of {', '.join(experiment.variants)}")
    names = [name for name in experiment.variants if not chosen or name in (UNCHANGED, *chosen)]
    # All are checked before the first one takes hours.
    configs = {run: experiment.config(*run, data=data, runs=runs) for run in product(names, seeds)}
    settings = {"base": experiment.base, "steps": experiment.steps, "every": experiment.every}
    report = Report(f"experiment-{experiment.name}", settings, [torch.get_num_threads()])
    outcomes: list[Outcome] = []
    for (name, _), config in configs.items():
        outcome = run_variant(
            name, config, experiment.searches, sentences=sentences, device=device, deadline=deadline
        )
        if outcome is None:
            click.echo(f"{name} is not finished yet: give the same command again", err=True)
            raise click.exceptions.Exit(UNFINISHED)
        outcomes.append(outcome)
        fill(report, experiment, outcomes)
        if output is not None:
            report.write(output)
    click.echo(report.markdown())


def fill(report: Report, experiment: Experiment, outcomes: Sequence[Outcome]) -> None:
    """Replace a report's content by what there is so far: one outcome for each variant and seed."""
    signatures = dict.fromkeys(
        str(scores[name])
        for outcome in outcomes
        for judgement in outcome.judgements
        for scores in judgement.scores.values()
        for name in ("bleu_signature", "chrf_signature")
    )
    seeds = ", ".join(map(str, sorted({outcome.seed for outcome in outcomes})))
    report.tables, report.results = [], []
    report.notes = [
        f"{experiment.base.stem}, {experiment.steps:,} steps each, judged on validation text; means over the "
        f"directions, and over the seeds {seeds} with the lowest and the highest in brackets where there are "
        "several.",
        "; ".join(f"`{each}`" for each in signatures),
    ]
    results = [{**asdict(each), "changes": experiment.variants[each.variant]} for each in outcomes]
    report.add(experiment.name, list(_rows(outcomes)), "variant", results)


def _rows(outcomes: Sequence[Outcome]) -> Iterator[Row]:
    by_variant: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_variant.setdefault(outcome.variant, []).append(outcome)
    first = _by_search(by_variant.get(UNCHANGED, []))
    for variant, runs in by_variant.items():
        endings = [run.ending for run in runs if run.ending is not None]
        for search, judgements in _by_search(runs).items():
            base = {} if variant == UNCHANGED else first.get(search, {})
            gains = [each.bleu - base[seed].bleu for seed, each in judgements.items() if seed in base]
            yield {
                "change": variant,
                "search": search or "the recipe's",
                "steps": f"{endings[0].step:,}",
                "BLEU": _spread([each.bleu for each in judgements.values()], "{:.2f}".format),
                "against as it is": _spread(gains, "{:+.2f}".format),
                "chrF": _spread([each.chrf for each in judgements.values()], "{:.2f}".format),
                "cross entropy": _spread([run.cross_entropy for run in runs], "{:.3f}".format),
                "minutes": _spread([each.minutes for each in endings], "{:.1f}".format),
            }
        for failed in (run for run in runs if run.failure):
            empty = dict.fromkeys(("search", "steps", "BLEU", "against as it is", "chrF"), "")
            figures = {**empty, "BLEU": f"seed {failed.seed} diverged", "cross entropy": "", "minutes": ""}
            yield {"change": variant, **figures}


def _by_search(runs: Sequence[Outcome]) -> Mapping[str, Mapping[int, Judgement]]:
    """Judgements of each search, by seed."""
    found: dict[str, dict[int, Judgement]] = {}
    for run in runs:
        for judgement in run.judgements:
            found.setdefault(judgement.search, {})[run.seed] = judgement
    return found


def _spread(values: Sequence[float | None], shown: Callable[[float], str]) -> str:
    """The mean of the known values, and the lowest and highest of several; empty for none."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    mean = shown(statistics.mean(known))
    return mean if len(known) == 1 else f"{mean} ({shown(min(known))} to {shown(max(known))})"


if __name__ == "__main__":
    main()
