"""ⓔ What may differ between the configuration a run began with and the one it is resumed with."""

from collections.abc import Mapping
from typing import Any

from model.errors import ConfigError

_FREE_SECTIONS = {"validation", "validation_corpora", "card", "decoding"}
_FREE_IN_RUN = {"folder", "max_steps", "max_minutes", "max_epochs", "save_every", "log_every", "threads"} | {
    "plots",
    "tensorboard",
    "checkpoint_precision",
}
_WHERE_DATA_IS = ("path", "target_path")


def check_unchanged(begun: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to resume under a configuration that would have trained something else so far.

    Limits, intervals, validation and the card may change. So may the places of corpora: what they
    hold is compared when the batches go back to their position.

    Args:
        begun: TrainConfig.to_dict() of the run when it began.
        now: The same of the run to resume.

    Raises:
        ConfigError: Naming the first value that differs.
    """
    free_in_run = _FREE_IN_RUN - ({"max_steps"} if _ends_with_the_run(now["schedule"]) else set())
    for section in now.keys() - _FREE_SECTIONS:
        for name, value in _flat(now[section]).items():
            expected = _flat(begun.get(section, {})).get(name)
            if value != expected and not (section == "run" and name in free_in_run):
                raise ConfigError(f"{section}.{name}", f"{expected!r}, as when the run began", value)


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
