"""A checkpoint that can be given another version, as one that was trained again would have."""

import hashlib
import json
import os
import shutil
from pathlib import Path


def copy_checkpoint(source: Path, folder: Path) -> None:
    """A copy that no other service uses."""
    shutil.copytree(source, folder)


def give_version(folder: Path, version: str) -> None:
    """Change a checkpoint's version, and what vouches for its files.

    Args:
        folder: Of the checkpoint.
        version: Its new one.
    """
    config = json.loads((folder / "config.json").read_text())
    config["card"]["version"] = version
    content = json.dumps(config).encode()
    provenance = json.loads((folder / "provenance.json").read_text())
    provenance["files"]["config.json"] = {
        "sha256": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
    }
    _write(folder / "config.json", content)
    _write(folder / "provenance.json", json.dumps(provenance).encode())


def _write(path: Path, content: bytes) -> None:
    """At once: who reads meanwhile finds the old file."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    os.replace(new, path)
