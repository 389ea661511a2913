"""⑤ The SHA-256 that a build leaves beside each library: loading a damaged one would end the process."""

import hashlib
from pathlib import Path


def seal_path(library: Path) -> Path:
    """Where the SHA-256 of a library is."""
    return library.with_name(f"{library.name}.sha256")


def seal(library: Path) -> None:
    """Leave the SHA-256 of a library beside it, as `sha256sum` writes it."""
    seal_path(library).write_text(f"{_digest(library)}  {library.name}\n")


def is_whole(library: Path) -> bool:
    """Whether a library is there, and is what its build made."""
    try:
        return seal_path(library).read_text().partition(" ")[0] == _digest(library)
    except (OSError, UnicodeDecodeError):
        return False


def _digest(library: Path) -> str:
    return hashlib.sha256(library.read_bytes()).hexdigest()
