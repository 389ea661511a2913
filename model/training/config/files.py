"""Reads a run's configuration from TOML files and options; later ones override earlier ones."""

import copy
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from model.errors import ConfigError
from model.training.config.train_config import LISTS, TrainConfig

Values = dict[str, Any]


def load_train_config(files: Sequence[Path], options: Mapping[str, Any]) -> TrainConfig:
    """Merge the files in their order, then the options.

    Later values replace earlier ones one by one, lists of corpora completely. Paths in a file are relative to
    that file, paths in options to the working directory.

    Args:
        files: TOML files, complete only together.
        options: In the shape of a file: sections of values, and lists of corpora.

    Raises:
        ConfigError: If a file cannot be read, or as TrainConfig.from_dict.
    """
    values: Values = {}
    for file in files:
        values = merged(values, anchored(_read_toml(file), file.parent))
    return TrainConfig.from_dict(merged(values, options))


def merged(values: Mapping[str, Any], changes: Mapping[str, Any]) -> Values:
    """A copy of `values` with `changes` merged into its tables."""
    result = copy.deepcopy(dict(values))
    for name, change in changes.items():
        earlier = result.get(name)
        if isinstance(earlier, Mapping) and isinstance(change, Mapping):
            result[name] = merged(earlier, change)
        else:
            result[name] = copy.deepcopy(change)
    return result


def anchored(values: Values, folder: Path) -> Values:
    """Resolve paths relative to `folder`, in place; empty paths stay, and are refused later."""
    corpora = [entry for key in LISTS for entry in _entries(values.get(key))]
    places = [(entry, name) for entry in corpora for name in ("path", "target_path")]
    places += [
        (values.get("vocabulary"), "reuse"),
        (values.get("run"), "folder"),
        (values.get("run"), "start_from"),
    ]
    for section, name in places:
        if isinstance(section, dict) and isinstance(section.get(name), str) and section[name]:
            section[name] = str(_tidy(folder / section[name]))
    return values


def _read_toml(file: Path) -> Values:
    try:
        with file.open("rb") as opened:
            return tomllib.load(opened)
    except (OSError, ValueError) as error:  # TOML and UTF-8 errors are ValueErrors
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError("config", f"a readable TOML file ({reason})", str(file)) from error


def _tidy(path: Path) -> Path:
    """The path without `..`, unless a symbolic link makes that another file."""
    tidy = Path(os.path.normpath(path))
    return tidy if tidy.resolve() == path.resolve() else path


def _entries(tables: object) -> list[object]:
    return tables if isinstance(tables, list) else []
