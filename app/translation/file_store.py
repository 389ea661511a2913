"""⑨ The store of translated files, and of the states of the jobs that translate files."""

import asyncio
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from app.admission.quota import Quota
from app.background import in_background
from app.errors import DrainingError, OverloadedError

# Bytes that the smallest file counts as, so that many small files cannot fill a disk.
_LEAST_COST: Final = 4_096
_NAME: Final = re.compile(r"[\w-]+(\.\w+)?", re.ASCII)


class FileStore:
    """Translated files under names that cannot be guessed, in private folders, for some seconds.

    Its methods are for the event loop only.

    Args:
        max_bytes: Most bytes of all files.
        seconds: How long a file is kept.
        folder: Where several processes find each other's files; None for one process, which makes a folder
            when it is needed.
        index: Number of this process.
    """

    def __init__(self, max_bytes: int, seconds: float, folder: Path | None = None, index: int = 0) -> None:
        self._bytes = Quota(max_bytes)
        self._seconds = seconds
        self._folder = folder
        self._index = str(index)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._is_closed = False
        if folder is not None:
            # The process before this one may have left some.
            shutil.rmtree(folder / self._index, ignore_errors=True)
        self._expiries: dict[str, tuple[asyncio.TimerHandle, Callable[[], None]]] = {}

    async def add(self, content: bytes, suffix: str, client: str) -> str:
        """Keep a file.

        Returns:
            Its name.

        Raises:
            OverloadedError: If the files, or those of the client, have too many bytes.
        """
        cost = max(len(content), _LEAST_COST)
        if not self._bytes.fits(cost, client):
            raise OverloadedError(int(self._seconds) or 1)
        name = secrets.token_urlsafe(24) + suffix
        path = self.new_path(name, "files")
        self._bytes.take(cost, client)
        expiry = asyncio.get_running_loop().call_later(self._seconds, self.remove, name)
        self._expiries[name] = expiry, partial(self._bytes.give_back, cost, client)
        try:
            await in_background(partial(_write, path, content))
        except BaseException:
            self.remove(name)
            raise
        return name

    def new_path(self, name: str, kind: str) -> Path:
        """Returns where this process is to put something of this name and kind, in a private folder.

        Raises:
            DrainingError: If the store is closed: nothing would delete the file.
        """
        if self._is_closed:
            raise DrainingError
        if self._folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="dragoman-", ignore_cleanup_errors=True)
            self._folder = Path(self._temporary.name)
        folder = self._folder / self._index / kind
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder / name

    def path(self, name: str, kind: str = "files") -> Path | None:
        """Returns where a process has put something; None if there is nothing of this name and kind."""
        if self._folder is None or _NAME.fullmatch(name) is None:
            return None
        return next(self._folder.glob(f"*/{kind}/{name}"), None)

    def remove(self, name: str) -> None:
        """Delete a file, if it is there; the process that has kept it gives its bytes back."""
        if (kept := self._expiries.pop(name, None)) is not None:
            expiry, give_back = kept
            expiry.cancel()
            give_back()
        if (path := self.path(name)) is not None:
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Delete all files, and keep no further ones."""
        self._is_closed = True
        for name in list(self._expiries):
            self.remove(name)
        if self._temporary is not None:
            self._temporary.cleanup()
        elif self._folder is not None:
            shutil.rmtree(self._folder / self._index, ignore_errors=True)


def _write(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
