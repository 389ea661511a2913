"""A probe of a whole run: the recipe of a goal for some steps, from text to translations."""

import statistics
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.accelerated.plan import Finding, Plan
from benchmarks.goals.catalogue import RECIPES
from benchmarks.limited_run import Deadline, train
from benchmarks.recipes import ROOT, read_recipe
from benchmarks.report import Table, rounded
from model.training.config.files import merged
from model.training.report.log import Journal
from model.training.run_folder.folder import RunFolder

_RECIPE = RECIPES / "multi30k-en-de.toml"
_COLUMNS = ("recipe", "steps", "tokens/s in steps", "of the time in steps", "BLEU", "chrF", "minutes")
_LANGUAGES = {"source_language": "en", "target_language": "fr", "bidirectional": True}
_BUNDLED: Mapping[str, Any] = {
    "corpora": [{"path": str(ROOT / "examples" / "phrases.en-fr.tsv"), **_LANGUAGES}],
    "validation_corpora": [{"path": str(ROOT / "examples" / "phrases-valid.en-fr.tsv"), **_LANGUAGES}],
    "vocabulary": {"size": 600},
    "card": {"name": "probe"},
}
"""Where the goal's own corpus is not at hand: enough to see that everything works."""


def probe_goal(plan: Plan) -> Finding:
    """Train so many steps and translate the validation text."""
    with TemporaryDirectory() as scratch:
        config = read_recipe(_RECIPE, _changes(plan), data=plan.data, folder=Path(scratch) / "run")
        ending = train(config, Deadline.after(0))
        assert ending is not None, "a run without a deadline ends"
        journal = Journal(RunFolder(Path(config.run.folder)).log)
        *_, judged = journal.events("validation")
        # The first ones load and compile.
        _, *rates = (event["tokens_per_second"] for event in journal.events("update"))
    rate = statistics.median(rates)
    share = ending.tokens / rate / (ending.minutes * 60)
    name = _RECIPE.stem if plan.data is not None else "bundled phrases"
    cells = (
        name,
        str(ending.step),
        rounded(rate),
        f"{share:.0%}",
        *(f"{judged[metric]:.1f}" for metric in ("bleu", "chrf")),
        f"{ending.minutes:.1f}",
    )
    figures = {"tokens_per_second": rate, "share_in_steps": share, "bleu": judged["bleu"]}
    return Finding(
        tables=[Table(title="Probe of a goal", columns=_COLUMNS, rows=[cells])],
        results=[{"kind": "probe", "recipe": name, "steps": ending.step, **figures}],
    )


def _changes(plan: Plan) -> Mapping[str, Any]:
    run = {
        "max_steps": plan.probe_steps,
        "log_every": max(1, plan.probe_steps // 10),
        "device": plan.device.type,
        "precision": str(plan.precision).removeprefix("torch."),
        "seed": plan.seed,
        "plots": False,
    }
    changes = {"run": run, "validation": {"every": plan.probe_steps, "max_sentences": 200, "patience": 0}}
    small = {"network": {"model_dim": 16, "num_heads": 2, "ffn_dim": 16}} if plan.shape == "tiny" else {}
    return merged(merged(changes, small), {} if plan.data is not None else _BUNDLED)
