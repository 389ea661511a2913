"""The saved state of a run, from which it resumes exactly, and the checks before it does.

The folder `state` holds `tensors.safetensors` (weights, optimiser, averages, random states) and
`state.json` (step, data position, scores so far). A new state replaces the old one in a single system call
after it was flushed to disk, so that a kill at any moment leaves a complete state.
"""

import json
import logging
import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from model.errors import ConfigError, CorpusError, TrainingError
from model.files import atomic_folder, restore
from model.training.data.preparation import text_fingerprints
from model.training.run_folder.folder import RunFolder
from model.training.train_config import TrainConfig

logger = logging.getLogger(__name__)

_TENSORS = "tensors.safetensors"
_VALUES = "state.json"
_FORMAT_VERSION = 1
"""Version of the layout of both files."""


@dataclass
class Position:
    """The progress of a run; saved and restored with its state.

    Attributes:
        step: Updates done.
        epoch: Passes over the data, with the fraction of the current one.
        tokens: Source and target tokens trained on.
        seconds: Training time, over all resumptions.
        validated_step: Step of the newest validation.
    """

    step: int = 0
    epoch: float = 0.0
    tokens: int = 0
    seconds: float = 0.0
    validated_step: int = 0


def seed_everything(seed: int) -> None:
    """Seed Python's, NumPy's and torch's generators (CPU and GPU)."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def seed_rank(seed: int, rank: int, step: int) -> None:
    """Seed the generators of one of several processes for one update."""
    words = np.random.SeedSequence([seed, rank, step]).generate_state(1, np.uint64)
    seed_everything(int(words[0]))


def capture_random_state() -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The states of all generators (of the current GPU): tensors by name, and values for JSON."""
    tensors = {"random.cpu": torch.get_rng_state()}
    if torch.cuda.is_initialized():
        tensors["random.cuda.0"] = torch.cuda.get_rng_state()
    legacy: dict[str, Any] = dict(np.random.get_state(legacy=False))
    tensors["random.numpy"] = torch.from_numpy(legacy["state"]["key"].astype(np.int64))
    numpy = {"pos": int(legacy["state"]["pos"]), "gauss": [int(legacy["has_gauss"]), float(legacy["gauss"])]}
    return tensors, {"python": random.getstate(), "numpy": numpy}


def restore_random_state(tensors: Mapping[str, Tensor], plain: Mapping[str, Any]) -> None:
    """Restore what `capture_random_state` returned; `plain` may have been saved as JSON."""
    torch.set_rng_state(tensors["random.cpu"])
    if torch.cuda.is_available() and "random.cuda.0" in tensors:
        torch.cuda.set_rng_state(tensors["random.cuda.0"])
    version, internal, gauss = plain["python"]
    random.setstate((version, tuple(internal), gauss))
    keys = tensors["random.numpy"].numpy().astype(np.uint32)
    np.random.set_state(("MT19937", keys, plain["numpy"]["pos"], *plain["numpy"]["gauss"]))


def save_run_state(
    folder: Path, step: int, tensors: Mapping[str, Tensor], values: Mapping[str, object]
) -> None:
    """Replace the state in `folder`.

    Args:
        folder: Folder of the state.
        step: Updates done.
        tensors: By name; no two share memory.
        values: The rest, for JSON.

    Raises:
        TrainingError: If it cannot be written (a full disk); the earlier state is kept.
    """
    try:
        with atomic_folder(folder) as unfinished:
            save_file({n: t.detach().cpu().contiguous() for n, t in tensors.items()}, unfinished / _TENSORS)
            described = {"format_version": _FORMAT_VERSION, "step": step, **values}
            (unfinished / _VALUES).write_text(json.dumps(described, ensure_ascii=False), encoding="utf-8")
    except (OSError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise TrainingError(
            f"cannot save the state of step {step}: {reason}; {_describe_kept(folder)}"
        ) from error


def _describe_kept(folder: Path) -> str:
    if not has_run_state(folder):
        return "none was saved before"
    return f"the one of step {load_state_values(folder).get('step')} is kept, continue it with --resume"


def has_run_state(folder: Path) -> bool:
    """Returns whether the folder holds a state."""
    return (folder / _VALUES).is_file()


def load_run_state(folder: Path) -> tuple[int, dict[str, Tensor], dict[str, Any]]:
    """Read a state: its step, tensors and values.

    Raises:
        TrainingError: If there is none, it cannot be read, or another release wrote it.
    """
    if not has_run_state(folder):
        raise TrainingError(f"there is nothing to resume: {folder} holds no state yet")
    values = load_state_values(folder)
    version, step = values.pop("format_version", None), values.pop("step", None)
    if version != _FORMAT_VERSION or not isinstance(step, int):
        known = f"this release goes on from version {_FORMAT_VERSION}"
        raise TrainingError(f"the run's state {folder / _VALUES} has format version {version!r}; {known}")
    try:
        tensors = load_file(folder / _TENSORS)
    except (OSError, SafetensorError) as error:
        raise TrainingError(f"the run's state {folder / _TENSORS} cannot be read: {error}") from error
    return step, tensors, values


def load_state_values(folder: Path) -> dict[str, Any]:
    """The values of a state, without its tensors.

    Raises:
        TrainingError: If it cannot be read.
    """
    try:
        values = json.loads((folder / _VALUES).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TrainingError(f"the run's state {folder / _VALUES} cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise TrainingError(f"the run's state {folder / _VALUES} must hold a JSON object")
    return values


_FREE_IN_RUN = {
    "folder",
    "max_steps",
    "max_minutes",
    "max_epochs",
    "save_every",
    "log_every",
    "threads",
    "plots",
    "tensorboard",
    "checkpoint_precision",
}
_FIXED_IN_VALIDATION = {"metric", "max_sentences"}
"""They would make new scores incomparable with the best one so far."""
_FREE_IN_BATCHES = "prefetch"
_WHERE_DATA_IS = ("path", "target_path")


def is_resumable(folder: RunFolder, config: TrainConfig, resume: bool) -> bool:
    """Returns whether the folder holds a state to continue from, which `config` and `resume` allow.

    Raises:
        ConfigError: If the configuration differs from the one the run began with.
        CorpusError: If the text has changed.
        TrainingError: If the folder holds a run and `resume` is false, or checkpoints without a state, or a
            file of the run cannot be read.
    """
    restore(folder.state)
    if has_run_state(folder.state):
        if not resume:
            raise TrainingError(f"{folder.root} holds a run already: give --resume, or another folder")
        check_unchanged(_config_at_start(folder).to_dict(), config.to_dict())
        _require_same_text(folder, config)
        return True
    if folder.checkpoints.exists():
        kept = f"{folder.root} holds checkpoints, but no state to go on from"
        raise TrainingError(f"{kept}: remove it, or name another folder")
    if resume:
        logger.warning("%s holds no state to resume from: the run begins", folder.root)
    return False


def _config_at_start(folder: RunFolder) -> TrainConfig:
    """The configuration that the run began with; settings that did not exist then have their default."""
    try:
        return TrainConfig.from_dict(json.loads(folder.config.read_text(encoding="utf-8")))
    except (OSError, ValueError, ConfigError) as error:
        message = f"cannot resume: {folder.config}, which the run began with, cannot be read"
        raise TrainingError(f"{message} ({error})") from error


def _require_same_text(folder: RunFolder, config: TrainConfig) -> None:
    """Refuse changed text before it is tokenised."""
    known = load_state_values(folder.state).get("text", {})
    for which, fingerprint in text_fingerprints(config, folder).items():
        if known.get(which) != fingerprint:
            raise CorpusError(f"cannot resume: the {which} text, or the tokenizer, has changed since")


def check_unchanged(begun: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse a configuration that would have trained other weights so far.

    Limits, intervals, most of validation and the card may change, and so may the paths of corpora, whose
    contents are compared by their fingerprints.

    Args:
        begun: TrainConfig.to_dict() of the run when it began.
        now: TrainConfig.to_dict() of the run to resume.

    Raises:
        ConfigError: Naming the first value that differs.
    """
    ends = _ends_of_a_cosine(begun["run"], now["schedule"])
    for section, name, before, after in _differences(begun, now):
        if name in ends:
            requirement = f"{before!r}, as when the run began: its cosine ends there"
            raise ConfigError(f"{section}.{name}", requirement, after)
        if not _is_free(section, name):
            raise ConfigError(f"{section}.{name}", f"{before!r}, as when the run began", after)


def _differences(
    begun: Mapping[str, Any], now: Mapping[str, Any]
) -> Iterator[tuple[str, str, object, object]]:
    """Section, name, earlier and current value of every difference; None for a missing value."""
    for section in now:
        before, after = _flat(begun.get(section, {})), _flat(now[section])
        for name in {**after, **before}:
            if before.get(name) != after.get(name):
                yield section, name, before.get(name), after.get(name)


def _is_free(section: str, name: str) -> bool:
    if section == "validation":
        return name not in _FIXED_IN_VALIDATION
    if section == "batches":
        return name == _FREE_IN_BATCHES
    return section == "card" or (section == "run" and name in _FREE_IN_RUN)


def _ends_of_a_cosine(run: Mapping[str, Any], schedule: Mapping[str, Any]) -> Collection[str]:
    """The limits of the run on which every learning rate depends."""
    if schedule["form"] != "cosine" or schedule["total_steps"]:
        return ()
    return ("max_steps",) if run["max_steps"] else ("max_steps", "max_minutes", "max_epochs")


def _flat(section: object) -> dict[str, object]:
    """The values of a section by name, of a list of tables by number and name."""
    if isinstance(section, Mapping):
        return dict(section)
    tables = section if isinstance(section, list) else []
    numbered = {f"{i}.{name}": value for i, table in enumerate(tables) for name, value in table.items()}
    return {"length": len(tables)} | {k: v for k, v in numbered.items() if not k.endswith(_WHERE_DATA_IS)}
