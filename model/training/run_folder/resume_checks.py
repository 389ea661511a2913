"""ⓔ Checks before a run is resumed: which configuration values may change, and that the text has not."""

import json
import logging
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from model.errors import ConfigError, CorpusError, TrainingError
from model.files import restore
from model.training.config.train_config import TrainConfig
from model.training.data.preparation import text_fingerprints
from model.training.run_folder.folder import RunFolder
from model.training.run_folder.state import has_run_state, load_state_values

logger = logging.getLogger(__name__)

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
    """Whether the folder holds a state to continue from, which `config` and `resume` allow.

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
    """What the run began with; values that did not exist then have their default."""
    try:
        return TrainConfig.from_dict(json.loads(folder.config.read_text(encoding="utf-8")))
    except (OSError, ValueError, ConfigError) as error:
        message = f"cannot resume: {folder.config}, which the run began with, cannot be read"
        raise TrainingError(f"{message} ({error})") from error


def _require_same_text(folder: RunFolder, config: TrainConfig) -> None:
    """Refuse changed text before it is tokenised."""
    known = load_state_values(folder.state).get("text", {})  # older states have no fingerprints
    for which, fingerprint in text_fingerprints(config, folder).items():
        if known.get(which, fingerprint) != fingerprint:
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
