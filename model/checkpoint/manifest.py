"""ⓕ The two JSON files of a checkpoint folder, the checksums of all other files, and folders found by path.

No torch.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from model.checkpoint.card import ModelCard
from model.checkpoint.importing.formats import recognise
from model.config import TransformerConfig
from model.errors import CheckpointError, ConfigError
from model.files import write_text_atomically
from model.validators import require_choice

FORMAT_VERSION = 1
PROVENANCE = "provenance.json"
ORIGIN = "origin"
"""Key of provenance.json that only imported checkpoints have: format, files, revision."""
_PARTS = ("format_version", "card", "architecture")
_MOST_TEXT_BYTES = 2**26

JsonObject = Mapping[str, object]
CONFIG = "config.json"
"""The file that makes a folder a checkpoint."""


@dataclass(frozen=True)
class FileRecord:
    """A file's record in provenance.json: SHA-256 in hexadecimal, size in bytes."""

    sha256: str
    size: int


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Turns an OSError of the block into a CheckpointError.

    Raises:
        CheckpointError: If `path` could not be written.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise CheckpointError(f"cannot write {path}: {reason}; what was there is kept") from error


def write_json(path: Path, content: JsonObject) -> None:
    """Writes an object as indented UTF-8 JSON with a final newline."""
    path.write_text(_to_text(content), encoding="utf-8")


def read_json(path: Path) -> dict[str, object]:
    """Reads a JSON object; see `read_any_json`."""
    content = read_any_json(path)
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} must hold a JSON object")
    return content


def read_any_json(path: Path) -> object:
    """Reads JSON.

    Raises:
        CheckpointError: If the file is missing, larger than 64 MiB, or not JSON in UTF-8, with or without a
            byte order mark.
    """
    try:
        content: object = json.loads(read_text(path).removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read as JSON: {error}") from error
    return content


def read_text(path: Path) -> str:
    """Reads UTF-8; see `read_any_json`."""
    with read_errors(path):
        if (size := path.stat().st_size) > _MOST_TEXT_BYTES:
            raise CheckpointError(f"{path} must have at most {_MOST_TEXT_BYTES} bytes, but has {size}")
        content = path.read_bytes()
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error


def write_config(folder: Path, config: TransformerConfig, card: ModelCard) -> None:
    """Writes config.json."""
    content = {"format_version": FORMAT_VERSION, "card": card.to_dict(), "architecture": config.to_dict()}
    write_json(folder / CONFIG, content)


def check_format_version(folder: Path) -> None:
    """Refuses a folder of an unknown format version.

    Raises:
        CheckpointError: With the version found and the known one; for a training run's folder, with the path
            of its checkpoint.
    """
    if is_run_folder(folder):
        good = good_checkpoint(folder)
        advice = f"name {good}" if good else "it has no checkpoint yet"
        raise CheckpointError(f"{folder} is a training run's folder, no checkpoint: {advice}")
    found = read_json(folder / CONFIG).get("format_version")
    if found != FORMAT_VERSION or isinstance(found, bool):
        known = f"this release reads version {FORMAT_VERSION}"
        raise CheckpointError(f"{folder / CONFIG} has format_version {found!r}; {known}")


def read_config(folder: Path) -> tuple[TransformerConfig, ModelCard]:
    """Reads config.json.

    Raises:
        CheckpointError: With the name of a part that is missing or unknown, or of an invalid value.
    """
    content = read_json(folder / CONFIG)
    try:
        for name in content:
            require_choice(name, name, _PARTS)
        config = TransformerConfig.from_dict(_section(content, "architecture"))
        return config, ModelCard.from_dict(_section(content, "card"))
    except (ConfigError, TypeError) as error:
        raise CheckpointError(f"{folder / CONFIG}: {error}") from error


def write_provenance(folder: Path, provenance: JsonObject) -> None:
    """Writes provenance.json: the caller's values, and a record of each other file."""
    records = {path.name: file_record(path) for path in sorted(folder.iterdir()) if path.name != PROVENANCE}
    files = {name: {"sha256": record.sha256, "bytes": record.size} for name, record in records.items()}
    write_json(folder / PROVENANCE, {**provenance, "files": files})


def record_evaluation(folder: Path, name: str, evaluation: JsonObject) -> None:
    """Adds scores to provenance.json under `evaluations`, or replaces those of the same name.

    Raises:
        CheckpointError: If provenance.json cannot be read or replaced.
    """
    known = read_json(folder / PROVENANCE).get("evaluations")
    evaluations = {**known, name: evaluation} if isinstance(known, dict) else {name: evaluation}
    record(folder, "evaluations", evaluations)


def record(folder: Path, key: str, value: object) -> None:
    """Sets a key of provenance.json.

    Everything else in the folder stays, and so does the checkpoint's checksum.

    Raises:
        CheckpointError: If provenance.json cannot be read or replaced.
    """
    provenance = read_json(folder / PROVENANCE)
    with write_errors(folder / PROVENANCE):
        write_text_atomically(folder / PROVENANCE, _to_text({**provenance, key: value}))


def read_records(folder: Path) -> Mapping[str, FileRecord]:
    """Reads the records of all files from provenance.json.

    Raises:
        CheckpointError: If provenance.json or one of its records is malformed.
    """
    files = _section(read_json(folder / PROVENANCE), "files", where=folder / PROVENANCE)
    return {name: _parse_record(folder, name, value) for name, value in files.items()}


def verify_files(folder: Path) -> Mapping[str, FileRecord]:
    """Compares each file with its record in provenance.json.

    Raises:
        CheckpointError: With the name of a file that is missing, truncated or changed.
    """
    records = read_records(folder)
    for name, expected in records.items():
        verify_file(folder / name, expected)
    return records


def verify_file(path: Path, expected: FileRecord, found: FileRecord | None = None) -> None:
    """Compares a file with its record.

    Args:
        path: The file.
        expected: Its record.
        found: Its size and checksum; None reads the file.

    Raises:
        CheckpointError: If the file is missing, truncated or changed.
    """
    with read_errors(path):
        found = found or file_record(path)
    _require_size(path, found.size, expected)
    if found.sha256 != expected.sha256:
        raise CheckpointError(f"{path} is corrupt: its SHA-256 is not the one in provenance.json")


def list_files(folder: Path) -> Mapping[str, FileRecord]:
    """Returns the records of all files, which must be there in their size; their content is not read.

    Raises:
        CheckpointError: With the name of a file that is missing or of another size.
    """
    records = read_records(folder)
    for name, expected in records.items():
        with read_errors(folder / name):
            _require_size(folder / name, (folder / name).stat().st_size, expected)
    return records


def fingerprint(records: Mapping[str, FileRecord]) -> str:
    """Returns one SHA-256 for the checkpoint: that of its files' names and checksums, in order of name."""
    lines = (f"{records[name].sha256}  {name}\n" for name in sorted(records))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def require_listed(folder: Path, names: Iterable[str], records: Mapping[str, FileRecord]) -> None:
    """Refuses files without a record in provenance.json.

    Raises:
        CheckpointError: With the name of the first such file.
    """
    for name in names:
        if name not in records:
            state = "is not listed in provenance.json" if (folder / name).exists() else "is missing"
            raise CheckpointError(f"checkpoint {folder} is incomplete: {name} {state}")


def _parse_record(folder: Path, name: str, value: object) -> FileRecord:
    fields = value if isinstance(value, dict) else {}
    sha256, size = fields.get("sha256"), fields.get("bytes")
    is_plain_name = name == Path(name).name and name.isprintable() and name not in ("", ".", "..")
    if not is_plain_name or not isinstance(sha256, str) or not isinstance(size, int):
        raise CheckpointError(f"{folder / PROVENANCE}: the record of file {name!r} is malformed")
    return FileRecord(sha256, size)


def _require_size(path: Path, size: int, expected: FileRecord) -> None:
    if size != expected.size:
        sizes = f"{size} bytes instead of {expected.size}"
        raise CheckpointError(f"{path} is corrupt: it has {sizes}, says provenance.json")


def require_file(path: Path) -> None:
    """Refuses a missing file, and what is not a regular file, such as a named pipe.

    Raises:
        CheckpointError: With the name of the file.
    """
    if not path.is_file():
        state = "is no file" if path.exists() else "is missing"
        raise CheckpointError(f"checkpoint {path.parent} is incomplete: {path.name} {state}")


@contextmanager
def read_errors(path: Path) -> Iterator[None]:
    """Refuses a missing file, and turns an error of reading it into a CheckpointError."""
    require_file(path)
    try:
        yield
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error


def file_record(path: Path) -> FileRecord:
    """Returns the record of a file, which is read."""
    with path.open("rb") as file:
        return FileRecord(hashlib.file_digest(file, "sha256").hexdigest(), path.stat().st_size)


def _section(content: JsonObject, name: str, *, where: Path | None = None) -> JsonObject:
    section = content.get(name)
    if not isinstance(section, dict):
        if where is not None:
            raise CheckpointError(f"{where} must hold an object `{name}`")
        raise ConfigError(name, "an object", section)
    return cast(JsonObject, section)


def _to_text(content: JsonObject) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def checkpoint_folders(path: Path) -> list[Path]:
    """Returns the checkpoint folders of a path, by name: the path itself, or those directly inside it.

    Hidden folders, such as a checkpoint that is being written, and folders of training runs do not count.
    """
    if (path / CONFIG).is_file() or not path.is_dir():
        return [path]
    return [folder for folder in _configured(path) if not is_run_folder(folder)]


def run_folders(path: Path) -> list[Path]:
    """Returns the folders of training runs directly inside a path, by name."""
    return [folder for folder in _configured(path) if is_run_folder(folder)]


def is_run_folder(path: Path) -> bool:
    """Returns whether a folder is that of a training run, whose `config.json` is not a checkpoint's."""
    values = config_values(path)
    return "corpora" in values and "format_version" not in values


def config_values(folder: Path) -> JsonObject:
    """Returns the content of a folder's `config.json`; empty if that is missing or cannot be read."""
    config = folder / CONFIG
    try:
        # Reading a pipe would block.
        content = json.loads(config.read_text(encoding="utf-8")) if config.is_file() else None
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def good_checkpoint(run: Path) -> Path | None:
    """Returns the best checkpoint of a training run, or else the last; None before the first."""
    places = (run / "checkpoints" / name for name in ("best", "last"))
    return next((place for place in places if place.is_dir()), None)


def _configured(path: Path) -> list[Path]:
    inside = path.iterdir() if path.is_dir() else ()
    # pathlib's is_file would raise for a folder that this user may not read, such as lost+found.
    return sorted(each for each in inside if not each.name.startswith(".") and os.path.isfile(each / CONFIG))


def served_folders(paths: Iterable[Path]) -> list[Path]:
    """Returns the checkpoint folders of several paths; see `checkpoint_folders`.

    Raises:
        ConfigError: If a path holds no checkpoint.
    """
    folders: list[Path] = []
    for path in paths:
        inside = checkpoint_folders(path) if path.is_dir() else []
        if not inside:
            foreign = recognise(path)
            advice = f"which `dragoman import` makes of {foreign.title}" if foreign else f"with {CONFIG}"
            raise ConfigError("checkpoint", f"a checkpoint folder ({advice}), or a folder of them", str(path))
        folders.extend(inside)
    return folders
