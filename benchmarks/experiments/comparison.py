"""All variants in one table: change, steps, BLEU, chrF, beside the unchanged recipe."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict

import torch

from benchmarks.experiments.judging import Judgement, Outcome
from benchmarks.experiments.plan import UNCHANGED, Experiment
from benchmarks.machine import describe_machine, load_average
from benchmarks.report import Report, Table

_COLUMNS = ("change", "search", "steps", "BLEU", "against as it is", "chrF", "cross entropy", "minutes")


def comparison(experiment: Experiment, outcomes: Sequence[Outcome], load: float) -> Report:
    """The report of what there is so far.

    Args:
        experiment: What is compared.
        outcomes: One for each variant and seed, in their order.
        load: Load average before.
    """
    signatures = dict.fromkeys(
        str(scores[name])
        for outcome in outcomes
        for judgement in outcome.judgements
        for scores in judgement.scores.values()
        for name in ("bleu_signature", "chrf_signature")
    )
    seeds = sorted({outcome.seed for outcome in outcomes})
    return Report(
        name=f"experiment-{experiment.name}",
        machine=describe_machine([torch.get_num_threads()]),
        loads=(load, load_average()),
        settings={"base": experiment.base, "steps": experiment.steps, "every": experiment.every},
        notes=[
            f"{experiment.base.stem}, {experiment.steps:,} steps each, judged on validation text; means "
            f"over the directions, and over the seeds {', '.join(map(str, seeds))} with the lowest and "
            "the highest in brackets where there are several.",
            "; ".join(f"`{each}`" for each in signatures),
        ],
        tables=[Table(title=experiment.name, columns=_COLUMNS, rows=list(_rows(outcomes)))],
        results=[
            {"kind": "variant", **asdict(outcome), "changes": experiment.variants[outcome.variant]}
            for outcome in outcomes
        ],
    )


def _rows(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, ...]]:
    by_variant: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_variant.setdefault(outcome.variant, []).append(outcome)
    first = _by_search(by_variant.get(UNCHANGED, []))
    for variant, runs in by_variant.items():
        endings = [run.ending for run in runs if run.ending is not None]
        entropies = [run.cross_entropy for run in runs if run.cross_entropy is not None]
        for search, judgements in _by_search(runs).items():
            base = {} if variant == UNCHANGED else first.get(search, {})
            gains = [each.bleu - base[seed].bleu for seed, each in judgements.items() if seed in base]
            yield (
                variant,
                search or "the recipe's",
                f"{endings[0].step:,}",
                _spread([each.bleu for each in judgements.values()], "{:.2f}".format),
                _spread(gains, "{:+.2f}".format),
                _spread([each.chrf for each in judgements.values()], "{:.2f}".format),
                _spread(entropies, "{:.3f}".format),
                _spread([each.minutes for each in endings], "{:.1f}".format),
            )
        for failed in (run for run in runs if run.failure):
            yield variant, "", "", f"seed {failed.seed} diverged", "", "", "", ""


def _by_search(runs: Sequence[Outcome]) -> Mapping[str, Mapping[int, Judgement]]:
    """Judgements of each search, by seed."""
    found: dict[str, dict[int, Judgement]] = {}
    for run in runs:
        for judgement in run.judgements:
            found.setdefault(judgement.search, {})[run.seed] = judgement
    return found


def _spread(values: Sequence[float], shown: Callable[[float], str]) -> str:
    """The mean, and the lowest and highest of several; empty for none."""
    if not values:
        return ""
    mean = shown(statistics.mean(values))
    return mean if len(values) == 1 else f"{mean} ({shown(min(values))} to {shown(max(values))})"
