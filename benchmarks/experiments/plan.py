"""An experiment as a file: a training file, the changes to it that are to be compared, and how.

    base = "../goals/multi30k-en-de.toml"     # relative to this file
    steps = 3000                              # of each variant
    every.network.model_dim = 128             # laid over the base for all of them

    [variants."no smoothing"]
    objective.label_smoothing = 0.0

    [searches."beam 2"]                       # optional: each variant is translated with each search
    beam_size = 2

The base without any change of its own comes first, as `as it is`. Paths are relative to the file.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from benchmarks.recipes import read_recipe
from model.training.config.files import anchored, merged
from model.training.config.train_config import TrainConfig
from model.training.run_folder.folder import RunFolder

RunName = tuple[str, int]
"""Name of a variant, and seed."""

UNCHANGED = "as it is"
_KEYS = ("base", "steps", "every", "variants", "searches")
_FEW = 50
"""Sentences that a run itself translates at its end: it is judged afterwards, by all."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What is compared with what.

    Attributes:
        name: Of its file.
        base: The training file.
        steps: Updates of each variant.
        every: Changes for all variants.
        variants: Changes by name, the unchanged one first.
        searches: Decode options by name; empty for what the recipe says.
    """

    name: str
    base: Path
    steps: int
    every: Mapping[str, Any]
    variants: Mapping[str, Mapping[str, Any]]
    searches: Mapping[str, Mapping[str, Any]]

    def config(self, variant: str, seed: int, *, data: Path | None, runs: Path) -> TrainConfig:
        """The training file of a variant: as many updates for all, none stops early.

        Args:
            variant: Its name.
            seed: Of its run.
            data: Where the corpora lie; see `read_recipe`.
            runs: Folder in which each run has one.

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


def read_experiment(file: Path, changes: Mapping[str, Any], steps: int | None) -> Experiment:
    """The experiment that a file describes.

    Args:
        file: See above.
        changes: Laid over the base for all variants, after the file's own.
        steps: In the place of the file's.

    Raises:
        click.UsageError: If it is not such a file.
    """
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{file} cannot be read as TOML: {error}") from error
    unknown = [key for key in values if key not in _KEYS]
    if unknown or "base" not in values or not (steps or values.get("steps")):
        raise click.UsageError(
            f"{file} must hold base, steps and variants, and nothing but {', '.join(_KEYS)}"
        )
    variants = [UNCHANGED, *values.get("variants", {})]
    alike = [name for name in variants if [_slug(each) for each in variants].count(_slug(name)) > 1]
    if alike:
        raise click.UsageError(
            f"{file}: {' and '.join(alike)} would share a folder: use other letters or figures"
        )
    return Experiment(
        name=file.stem,
        base=file.parent / values["base"],
        steps=steps or values["steps"],
        every=merged(anchored(values.get("every", {}), file.parent), changes),
        variants={UNCHANGED: {}}
        | {name: anchored(each, file.parent) for name, each in values.get("variants", {}).items()},
        searches=values.get("searches", {}),
    )


def sharing_pieces(configs: Mapping[RunName, TrainConfig]) -> dict[RunName, TrainConfig]:
    """The same runs; those that would learn the very vocabulary of the first one of their seed take that one.

    Never from another seed's: a run must stay the same whichever seeds a call has, or the next call could
    not go on with it.
    """
    first: dict[int, TrainConfig] = {}
    return {name: _sharing(config, first.setdefault(name[1], config)) for name, config in configs.items()}


def _sharing(config: TrainConfig, first: TrainConfig) -> TrainConfig:
    if config is first or not _same(config, first):
        return config
    pieces = str(RunFolder(Path(first.run.folder)).tokenizer)
    return replace(config, vocabulary=replace(first.vocabulary, reuse=pieces))


def _same(one: TrainConfig, other: TrainConfig) -> bool:
    """Whether the same vocabulary would be learnt."""
    parts = [(config.corpora, config.cleaning, config.vocabulary) for config in (one, other)]
    return parts[0] == parts[1] and one.vocabulary.reuse is None


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-")
