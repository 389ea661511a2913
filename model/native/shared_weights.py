"""Packed weights that several processes of one service map, so that they are in memory once.

    a process ── key of the weights, its end of a connection ──► the holder, in the process that started them
              ◄── their memory file, or none: "pack them into yours" ──
              ── its memory file, sealed ──► for the next process

A connection stays open as long as the process uses the weights. The holder closes a file when no process uses
it, so its memory is free once it is unmapped everywhere. If a process ends before it has packed the weights,
another one packs them. A sealed file can be neither written nor truncated, so that no process harms another.
"""

import contextlib
import fcntl
import logging
import os
import select
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

logger = logging.getLogger(__name__)

LABEL_BYTES: Final = 64
"""Bytes at the begin of the file that tell which weights these are; kLabelBytes in `weight_memory.h`."""

_PACK: Final = b"pack"
_MAP: Final = b"map"
_LONGEST_KEY: Final = 4096


@dataclass(eq=False)
class SharedMemory:
    """A memory file for packed weights, and the right to use it until `close`.

    Attributes:
        descriptor: The file: an empty one, or what another process has packed.
        is_packed: Whether another process has packed the weights.
    """

    descriptor: int
    is_packed: bool
    _connection: socket.socket

    def label(self) -> bytes:
        """Returns the first bytes of the file."""
        return os.pread(self.descriptor, LABEL_BYTES, 0)

    def publish(self, label: bytes) -> None:
        """Labels and seals the weights that this process has packed, and lets the other processes have them.

        No mapping of this process may be writable any more. Without a holder they are for this process alone.
        """
        os.pwrite(self.descriptor, label, 0)
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, seals)
        _send(self._connection, _MAP, [self.descriptor])

    def close(self) -> None:
        """Closes the file, which mappings keep in memory, and tells the holder that it is not used."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
        self._connection.close()


class SharedWeights:
    """The packed weights that processes share: a process finds those of the others, and leaves its own.

    Args:
        holder: A connection to the holder, which other processes may use too.
    """

    def __init__(self, holder: socket.socket) -> None:
        self._holder = holder

    def open(self, key: str) -> SharedMemory | None:
        """Returns the memory file for some weights; waits while another process packs them.

        Args:
            key: Differs between weights, and between forms of the same weights.

        Returns:
            None if memory cannot be shared; the log has the reason.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                socket.send_fds(self._holder, [key.encode()], [theirs.fileno()])
            message, descriptors = _receive(ours, len(_PACK))
            if not message:
                raise ConnectionError("the process that holds the weights has ended")
            if message == _PACK:
                flags = os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC
                return SharedMemory(os.memfd_create("dragoman-weights", flags), False, ours)
            return SharedMemory(descriptors[0], True, ours)
        except OSError as reason:
            ours.close()
            logger.warning("the weights are not shared with other processes: %s", reason)
            return None


@dataclass(eq=False)
class _File:
    """The memory file of one key, and the connections of the processes that use it or wait for it."""

    key: bytes
    descriptor: int = -1
    packing: socket.socket | None = None
    waiting: list[socket.socket] = field(default_factory=list)


class WeightsHolder:
    """Keeps memory files for as long as a process uses them. It maps none of them.

    A process that inherits a holder by `fork` must call `as_client` once.
    """

    def __init__(self) -> None:
        self._requests, self._clients = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._connections: dict[socket.socket, _File] = {}
        self._files: dict[bytes, _File] = {}

    @property
    def client(self) -> socket.socket:
        """The end that all processes inherit."""
        return self._clients

    @property
    def num_files(self) -> int:
        """Number of weights that some process uses."""
        return len(self._files)

    def as_client(self) -> SharedWeights:
        """Returns what a process uses that was forked, and closes the files and connections of the others."""
        self._requests.close()
        self._close_all()
        return SharedWeights(self._clients)

    def close(self) -> None:
        """Closes all files and connections. The processes keep what they have mapped."""
        self._requests.close()
        self._clients.close()
        self._close_all()

    def answer(self, seconds: float = 0.0) -> None:
        """Answers the processes that ask for weights, have packed them, or do not use them any more.

        Args:
            seconds: How long to wait if there is none.
        """
        poller = select.poll()
        readable = {each.fileno(): each for each in (self._requests, *self._connections)}
        for descriptor in readable:
            poller.register(descriptor, select.POLLIN)
        for descriptor, _ in poller.poll(1000 * seconds):
            if readable[descriptor] is self._requests:
                self._connect()
            else:
                self._read(readable[descriptor])

    def _connect(self) -> None:
        key, descriptors = _receive(self._requests, _LONGEST_KEY)
        for descriptor in descriptors:
            connection = socket.socket(fileno=descriptor)
            file = self._files.setdefault(key, _File(key))
            self._connections[connection] = file
            file.waiting.append(connection)
            self._offer(file)

    def _read(self, connection: socket.socket) -> None:
        file = self._connections[connection]
        message, descriptors = _receive(connection, len(_MAP))
        if file.packing is connection:
            file.packing = None
            file.descriptor = descriptors[0] if descriptors else -1
        if not message:
            self._forget(connection)
        self._offer(file)

    def _offer(self, file: _File) -> None:
        """Sends the file to the processes that wait for it, or lets one of them pack it."""
        while file.waiting and file.packing is None:
            connection = file.waiting.pop(0)
            if file.descriptor >= 0:
                _send(connection, _MAP, [file.descriptor])
            else:
                file.packing = connection
                _send(connection, _PACK)

    def _forget(self, connection: socket.socket) -> None:
        file = self._connections.pop(connection)
        connection.close()
        if connection in file.waiting:
            file.waiting.remove(connection)
        if file not in self._connections.values():
            del self._files[file.key]
            _close(file)

    def _close_all(self) -> None:
        for connection in self._connections:
            connection.close()
        for file in self._files.values():
            _close(file)
        self._connections.clear()
        self._files.clear()


def _close(file: _File) -> None:
    if file.descriptor >= 0:
        os.close(file.descriptor)


def _send(connection: socket.socket, message: bytes, descriptors: Sequence[int] = ()) -> None:
    """Sends a message, unless the other process has ended, which its connection tells."""
    with contextlib.suppress(ConnectionError):
        socket.send_fds(connection, [message], descriptors)


def _receive(connection: socket.socket, size: int) -> tuple[bytes, Sequence[int]]:
    """Returns a message and the descriptors with it; nothing if the other process has ended."""
    try:
        message, descriptors, _, _ = socket.recv_fds(connection, size, 1, socket.MSG_CMSG_CLOEXEC)
    except ConnectionError:
        return b"", ()
    return message, descriptors
