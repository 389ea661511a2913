"""① API keys: known only by their SHA-256, compared in constant time, re-read when their file changes."""

import hashlib
import hmac
import logging
import os
import re
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from app.errors import KeyInvalidError, KeyMissingError, KeysUnreadableError
from model.errors import ConfigError

logger = logging.getLogger(__name__)

_LINE = re.compile(r"([^\s:#][^:]*):([0-9a-fA-F]{64})")
_Stamp = tuple[int, int, int]
# A file that is written twice within a tick of the system's clock looks the same after both.
_TICK_NS: Final = 100_000_000

# The second is what DeepL's clients call theirs.
_SCHEMES = ("bearer", "deepl-auth-key")


def new_key() -> str:
    """A key that nobody can guess: 256 bits, so that its bare digest gives nothing away."""
    return f"dragoman_{secrets.token_urlsafe(32)}"


def line_of(name: str, key: str) -> str:
    """What the file holds of a key.

    Raises:
        ConfigError: If it could not be read again as it is meant.
    """
    line = f"{name}:{_digest(key).hex()}"
    if _LINE.fullmatch(line) is None or not name.isprintable():
        raise ConfigError("name", "printable, without a colon, and not begin with # or a space", name)
    return line


class KeyRing:
    """The keys of a file with lines of `name:hex`; blank lines and those that begin with # are skipped.

    A removed key stops working with the next request. One name may have several, while one replaces another.

    Args:
        path: The file; None lets everybody in.

    Raises:
        ConfigError: If a line reads otherwise, or the file cannot be read.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._stamp: _Stamp | None = None
        self._keys: tuple[tuple[str, bytes], ...] = ()
        self._uses: dict[str, int] = {}
        self._is_readable = True
        if path is not None:
            self._reload(path)

    def identify(self, key: str | None) -> str | None:
        """Name of a key's owner; None where no key is needed.

        Raises:
            KeyMissingError: If one is needed, but none came.
            KeyInvalidError: If it is not one of ours.
            KeysUnreadableError: If the file has become unusable: rather nobody than a revoked key.
        """
        if self._path is None:
            return None
        if not key:
            raise KeyMissingError
        self._require_readable(self._path)
        presented = _digest(key)
        # Every digest is compared, so that time tells nothing about which of them came close.
        owners = [name for name, digest in self._keys if hmac.compare_digest(digest, presented)]
        if not owners:
            raise KeyInvalidError
        return owners[0]

    def client_of(self, key: str | None, address: str) -> str:
        """Name of a client: its key's owner where keys are needed, else its address.

        Raises:
            AccessDeniedError: If a key is needed, and this is none of ours.
            KeysUnreadableError: If keys cannot be checked.
        """
        owner = self.identify(key)
        return f"address:{address}" if owner is None else f"key:{owner}"

    @property
    def uses(self) -> Mapping[str, int]:
        """How often each owner of a key was let in, since the file has named it."""
        return self._uses

    def count(self, owner: str) -> None:
        """Count a request of an owner of a key; of anybody else none is counted."""
        if owner in self._uses:
            self._uses[owner] += 1

    def _require_readable(self, path: Path) -> None:
        """Look at the file; of many requests only the first that finds another state of it logs that."""
        try:
            self._reload(path)
        except ConfigError as fault:
            if self._is_readable:
                logger.error("the file of API keys cannot be used", exc_info=fault)
            self._is_readable = False
            raise KeysUnreadableError from None
        if not self._is_readable:
            logger.info("the file of API keys can be used again")
        self._is_readable = True

    def _reload(self, path: Path) -> None:
        try:
            status = os.stat(path)
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            if stamp != self._stamp:
                self._keys = _parse(path.read_text("utf-8-sig"))
                self._uses = {name: self._uses.get(name, 0) for name, _ in self._keys}
                is_settled = abs(time.time_ns() - status.st_mtime_ns) > _TICK_NS
                self._stamp = stamp if is_settled else None
        except (OSError, UnicodeDecodeError):
            raise ConfigError("api_keys_file", "a readable file", str(path)) from None


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def _parse(text: str) -> tuple[tuple[str, bytes], ...]:
    lines = enumerate(map(str.strip, text.splitlines()), start=1)
    return tuple(_parse_line(line, number) for number, line in lines if line and not line.startswith("#"))


def _parse_line(line: str, number: int) -> tuple[str, bytes]:
    match = _LINE.fullmatch(line)
    if match is None:
        # The line itself may hold a key in clear, so it is not shown.
        raise ConfigError("api_keys_file", "lines of `name:SHA-256 in hex`", f"line {number}")
    return match[1], bytes.fromhex(match[2])


def key_in(authorization: str) -> str | None:
    """The key that such a header carries, if it does."""
    scheme, _, credentials = authorization.partition(" ")
    return credentials.strip() or None if scheme.lower() in _SCHEMES else None
