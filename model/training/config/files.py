"""Reads a run's configuration from TOML files and options; later ones override earlier ones."""

import copy
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from model.errors import ConfigError
from model.training.config.train_config import LISTS, TrainConfig

Values = dict[str, Any]
_PATHS = ("path", "target_path", "reuse", "folder", "start_from")


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
        added = _read_toml(file)
        for table, name in paths(added):
            table[name] = str(_tidy(file.parent / table[name]))
        values = merged(values, added)
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


def paths(values: Values) -> Iterator[tuple[Values, str]]:
    """The table and the name of each path in a configuration; empty paths are left out, and refused later."""
    lists = [values[name] for name in LISTS if isinstance(values.get(name), list)]
    for table in (*chain(*lists), values.get("vocabulary"), values.get("run")):
        for name in _PATHS if isinstance(table, dict) else ():
            if isinstance(table.get(name), str) and table[name]:
                yield table, name


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
