"""① API keys: stored as SHA-256, compared in constant time, and read again when their file changes."""

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

from app.errors import AccessDeniedError, KeyInvalidError, KeyMissingError, KeysUnreadableError
from model.errors import ConfigError

logger = logging.getLogger(__name__)

KEY: Final = re.compile(r"dragoman_[\w-]{43}")
"""A key of `new_key`, to be left out of messages."""
_LINE = re.compile(r"([^\s:#][^:]*):([0-9a-fA-F]{64})")
_Stamp = tuple[int, int, int]
# A file that is written twice within a tick of the system's clock has the same stamp after both.
_TICK_NS: Final = 100_000_000

# DeepL's clients use the second.
_SCHEMES = ("bearer", "deepl-auth-key")


def new_key() -> str:
    """Returns a random key of 256 bits, so that its digest alone does not help to guess it."""
    return f"dragoman_{secrets.token_urlsafe(32)}"


def owner_of(client: str) -> str:
    """Returns the owner of a client's key; empty for a client that is known by its address."""
    return client.removeprefix("key:") if client.startswith("key:") else ""


def line_of(name: str, key: str) -> str:
    """Returns the line of the file of keys for a key.

    Raises:
        ConfigError: If the name would make the line ambiguous.
    """
    line = f"{name}:{_digest(key).hex()}"
    if _LINE.fullmatch(line) is None or not name.isprintable():
        raise ConfigError("name", "printable, without a colon, and not begin with # or a space", name)
    return line


def append_line(file: Path, line: str) -> None:
    """Append a line to a file of keys, whole or not at all.

    Raises:
        OSError: If the file cannot be read or written.
        UnicodeDecodeError: If the file is not text.
    """
    if not file.exists():
        # The file holds digests only, but the names of the owners are not public either.
        file.touch(mode=0o600)
    text, size = file.read_text("utf-8"), file.stat().st_size
    try:
        with file.open("a", encoding="utf-8") as stream:
            stream.write(f"{'' if text.endswith(chr(10)) or not text else chr(10)}{line}\n")
    except OSError:
        os.truncate(file, size)  # a part of a line would make the file malformed
        raise


class _MalformedLineError(ConfigError):
    """A line of the file of keys has another form than `name:hex`."""

    def __init__(self, number: int) -> None:
        super().__init__("api_keys_file", "lines of `name:SHA-256 in hex`", f"line {number}")
        self.number = number


class KeyRing:
    """The keys of a file with lines of `name:hex`; blank lines and lines that begin with # are skipped.

    A removed key stops working with the next request. A name may have several keys while one replaces
    another. While a line of the changed file has another form, the keys read before stay valid.

    Args:
        path: The file; None if no key is needed.

    Raises:
        ConfigError: If a line has another form, or the file cannot be read.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._stamp: _Stamp | None = None
        self._keys: tuple[tuple[str, bytes], ...] = ()
        self._uses: dict[str, int] = {}
        # What is wrong with the file, as logged.
        self._fault = ""
        if path is not None:
            self._reload(path)

    def identify(self, key: str | None) -> str | None:
        """Returns the name of a key's owner; None if no key is needed.

        Raises:
            KeyMissingError: If a key is needed and none is given.
            KeyInvalidError: If the file does not have the key.
            KeysUnreadableError: If the file cannot be read any more; an old copy might hold revoked keys.
        """
        if self._path is None:
            return None
        if not key:
            raise KeyMissingError
        self._require_readable(self._path)
        presented = _digest(key)
        # Every digest is compared, so that the time does not depend on which one matches.
        owners = [name for name, digest in self._keys if hmac.compare_digest(digest, presented)]
        if not owners:
            raise KeyInvalidError
        return owners[0]

    def client_of(self, key: str | None, address: str) -> str:
        """Returns the name of a client: the owner of its key if keys are needed, else its address.

        Raises:
            AccessDeniedError: If a key is needed and this one is not valid.
            KeysUnreadableError: If keys cannot be checked.
        """
        owner = self.identify(key)
        return f"address:{address}" if owner is None else f"key:{owner}"

    def client_by_head(self, authorization: str, address: str) -> str:
        """Returns the client that the head of a request names, as far as it is known.

        A key may also be in the body, and is otherwise refused later.
        """
        try:
            return self.client_of(key_in(authorization), address)
        except (AccessDeniedError, KeysUnreadableError):
            return f"address:{address}"

    @property
    def uses(self) -> Mapping[str, int]:
        """Admitted requests of each owner, since the file has named the owner."""
        return self._uses

    def count(self, owner: str) -> None:
        """Count an admitted request if the file has this owner."""
        if owner in self._uses:
            self._uses[owner] += 1

    def _require_readable(self, path: Path) -> None:
        """Read the file again if it has changed, and log when it becomes unusable or usable."""
        try:
            self._reload(path)
        except _MalformedLineError as fault:
            event = "the file of API keys is malformed; the keys read before stay valid"
            self._note(f"{path}, line {fault.number}", event)
        except ConfigError:
            self._note(str(path), "the file of API keys cannot be read")
            raise KeysUnreadableError from None
        else:
            if self._fault:
                logger.info("the file of API keys can be used again")
            self._fault = ""

    def _note(self, fault: str, event: str) -> None:
        """Log a fault, once for as long as it lasts."""
        if self._fault != fault:
            logger.error(event, extra={"reason": fault})
        self._fault = fault

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
        # The line may hold a key instead of its digest, so it is not shown.
        raise _MalformedLineError(number)
    return match[1], bytes.fromhex(match[2])


def key_in(authorization: str) -> str | None:
    """Returns the key of an `Authorization` header; None if there is none."""
    scheme, _, credentials = authorization.partition(" ")
    return credentials.strip() or None if scheme.lower() in _SCHEMES else None
