"""ⓔ What may differ between the configuration a run began with and the one it is resumed with."""

from collections.abc import Iterator, Mapping
from typing import Any

from model.errors import ConfigError

_FREE_SECTIONS = {"validation_corpora", "card", "decoding"}
_FREE_IN_RUN = {"folder", "max_steps", "max_minutes", "max_epochs", "save_every", "log_every", "threads"} | {
    "plots",
    "tensorboard",
    "checkpoint_precision",
}
_FIXED_IN_VALIDATION = "metric"
"""Scores of another metric cannot be compared with the best one so far."""
_WHERE_DATA_IS = ("path", "target_path")


def check_unchanged(begun: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to resume under a configuration that would have trained something else so far.

    Limits, intervals, most of validation and the card may change. So may the places of corpora:
    what they hold is compared when the batches go back to their position.

    Args:
        begun: TrainConfig.to_dict() of the run when it began.
        now: The same of the run to resume.

    Raises:
        ConfigError: Naming the first value that differs.
    """
    ends_with_the_run = _ends_with_the_run(now["schedule"])
    for section, name, before, after in _differences(begun, now):
        if name == "max_steps" and ends_with_the_run:
            requirement = f"{before!r}, as when the run began: its cosine ends there"
            raise ConfigError(f"{section}.{name}", requirement, after)
        if not _is_free(section, name):
            raise ConfigError(f"{section}.{name}", f"{before!r}, as when the run began", after)


def _differences(
    begun: Mapping[str, Any], now: Mapping[str, Any]
) -> Iterator[tuple[str, str, object, object]]:
    """Section, name, value then and value now of all that differ; None stands for a value not given."""
    for section in now:
        before, after = _flat(begun.get(section, {})), _flat(now[section])
        for name in {**after, **before}:
            if before.get(name) != after.get(name):
                yield section, name, before.get(name), after.get(name)


def _is_free(section: str, name: str) -> bool:
    if section == "validation":
        return name != _FIXED_IN_VALIDATION
    return section in _FREE_SECTIONS or (section == "run" and name in _FREE_IN_RUN)


def _ends_with_the_run(schedule: Mapping[str, Any]) -> bool:
    """Whether every learning rate depends on the number of steps."""
    return bool(schedule["form"] == "cosine" and not schedule["total_steps"])


def _flat(section: object) -> dict[str, object]:
    """A section's values by name; those of a list of tables by number and name."""
    if isinstance(section, Mapping):
        return dict(section)
    tables = section if isinstance(section, list) else []
    numbered = {f"{i}.{name}": value for i, table in enumerate(tables) for name, value in table.items()}
    return {"length": len(tables)} | {k: v for k, v in numbered.items() if not k.endswith(_WHERE_DATA_IS)}
