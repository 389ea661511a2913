"""API keys: known only by their SHA-256, compared in constant time, re-read when their file changes."""

import hashlib
import hmac
import logging
import os
import re
from pathlib import Path

from app.errors import KeyInvalidError, KeyMissingError, KeysUnreadableError
from model.errors import ConfigError

logger = logging.getLogger(__name__)

_LINE = re.compile(r"([^\s:#][^:]*):([0-9a-fA-F]{64})")
_Stamp = tuple[int, int, int]


class KeyRing:
    """The keys of a file with lines of `name:hex`; blank lines and those that begin with # are skipped.

    A removed key stops working with the next request.

    Args:
        path: The file; None lets everybody in.

    Raises:
        ConfigError: If a line reads otherwise, or the file cannot be read.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._stamp: _Stamp | None = None
        self._digests: dict[str, bytes] = {}
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
        try:
            self._reload(self._path)
        except ConfigError as fault:
            logger.error("the file of API keys cannot be used", exc_info=fault)
            raise KeysUnreadableError from None
        presented = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
        # Every digest is compared, so that time tells nothing about which of them came close.
        owners = [name for name, digest in self._digests.items() if hmac.compare_digest(digest, presented)]
        if not owners:
            raise KeyInvalidError
        return owners[0]

    def _reload(self, path: Path) -> None:
        try:
            status = os.stat(path)
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            if stamp != self._stamp:
                self._digests = _parse(path.read_text("utf-8"))
                self._stamp = stamp
        except (OSError, UnicodeDecodeError):
            raise ConfigError("api_keys_file", "a readable file", str(path)) from None


def _parse(text: str) -> dict[str, bytes]:
    digests: dict[str, bytes] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            # The line itself may hold a key in clear, so it is not shown.
            raise ConfigError("api_keys_file", "lines of `name:SHA-256 in hex`", f"line {number}")
        digests[match[1]] = bytes.fromhex(match[2])
    return digests
