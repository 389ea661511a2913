"""What the processes of one service share: a small table in memory, and a folder.

Each process writes its own row of the table, and the supervisor writes the head:

    supervisor ── head: the round of reloading, and the checkpoints that all serve ──► every process
               ◄── rows: phase, connections, heartbeat, vote ────────────────────────

All processes serve the same checkpoints. A reload is a round: each process loads and verifies what it finds,
votes for it and waits. If all votes are for the same checkpoints the supervisor decides for them, and each
process serves them from then on; otherwise all go on as before. A process that starts joins in the same way.
"""

import asyncio
import ctypes
import hashlib
import math
import mmap
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Final

from model.errors import CheckpointError
from model.native.shared_weights import WeightsHolder

# A process without a heartbeat for so long gets no connections.
_BEAT_SECONDS: Final = 1.0
# How long a process leaves a connection to another one that has fewer, and may be busy.
_DEFERRING_SECONDS: Final = 0.02
# Of so many connections, one more than the others have does not matter.
_CONNECTIONS_PER_SPARE: Final = 16
_POLL_SECONDS: Final = 0.02
# Processes that join together begin to serve within so long.
_JOINING_SECONDS: Final = 0.002


class State(IntEnum):
    """The state of a process, as the others see it."""

    ABSENT = 0
    LOADING = 1
    JOINING = 2  # it has loaded checkpoints, and waits for the decision
    JOINED = 3  # it may serve, and waits for those that join with it
    READY = 4
    LEAVING = 5


class _Row(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_int64),
        ("state", ctypes.c_int64),
        ("beat", ctypes.c_double),  # last turn of its event loop, seconds of the monotonic clock
        ("is_stuck", ctypes.c_int64),
        ("is_listening", ctypes.c_int64),
        ("connections", ctypes.c_int64),
        ("accepted", ctypes.c_int64),  # connections, ever
        ("wants_reload", ctypes.c_int64),
        ("voted", ctypes.c_int64),  # the round of its vote
        ("vote", ctypes.c_int64),  # what it has loaded; 0 if that failed
    )


class _Head(ctypes.Structure):
    _fields_ = (
        ("round", ctypes.c_int64),  # begun last
        ("decided", ctypes.c_int64),  # decided last
        ("models", ctypes.c_int64),  # what all serve; 0 before the first decision
    )


class ProcessTable:
    """The table as the supervisor sees it, made before the processes that inherit it.

    Args:
        count: Number of processes.

    Attributes:
        count: The same.
        folder: A private folder of all of them; removed by `close`.
        weights: Holds the packed weights of their checkpoints.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.folder = Path(tempfile.mkdtemp(prefix="dragoman-"))
        self.weights = WeightsHolder()
        memory = mmap.mmap(-1, ctypes.sizeof(_Head) + count * ctypes.sizeof(_Row))
        self._head = _Head.from_buffer(memory)
        self._rows: ctypes.Array[_Row] = (_Row * count).from_buffer(memory, ctypes.sizeof(_Head))

    def close(self) -> None:
        """Remove the folder, and let go of the weights."""
        self.weights.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def process(self, index: int) -> "ServiceProcess":
        """Returns the table as one of the processes sees it; to be called in that process."""
        return ServiceProcess(self, index)

    def clear(self, index: int) -> None:
        """Forget a process that has ended."""
        ctypes.memset(ctypes.byref(self._rows[index]), 0, ctypes.sizeof(_Row))

    def begin(self, index: int) -> None:
        """Expect a process that is about to start."""
        self._rows[index].state = State.LOADING
        self._rows[index].voted = self._head.round

    def state(self, index: int) -> State:
        """Returns what a process is doing."""
        return State(self._rows[index].state)

    def is_loading(self, index: int) -> bool:
        """Returns whether a process loads checkpoints, at its start or in the present round."""
        row = self._rows[index]
        has_to_vote = row.state == State.READY and row.voted < self._head.round
        return has_to_vote or row.state in (State.LOADING, State.JOINING, State.JOINED)

    def is_stuck(self, index: int) -> bool:
        """Returns whether an engine of a process has work and makes no step."""
        return bool(self._rows[index].is_stuck)

    def silent_seconds(self, index: int) -> float:
        """Returns how long the event loop of a process has made no turn; 0 before its first one."""
        beat = float(self._rows[index].beat)
        return time.monotonic() - beat if beat else 0.0

    @property
    def has_served(self) -> bool:
        """Whether the processes have ever served checkpoints."""
        return bool(self._head.models)

    def request_reload(self) -> None:
        """Have all processes load the checkpoints again, after the present round."""
        self._rows[0].wants_reload = True

    def decide(self) -> None:
        """Decide the present round if all have voted, or begin one if that is due.

        A round is due when a reload was requested, or when a process joins with other checkpoints than those
        that are served. At the start of the service there is no round: all processes join together.
        """
        head = self._head
        newcomers = [row for row in self._rows if row.state == State.JOINING and row.vote != head.models]
        if head.decided < head.round:
            voters = [row for row in self._rows if row.state in (State.JOINED, State.READY)]
            if all(row.voted == head.round for row in voters):
                self._settle({row.vote for row in (*voters, *newcomers)})
        elif head.models == 0:
            if len(newcomers) == self.count:
                votes = {row.vote for row in newcomers}
                if len(votes) > 1:
                    # Each of them then sees a decision against its vote.
                    head.round += 1
                self._settle(votes)
        elif newcomers or any(row.wants_reload for row in self._rows):
            for row in self._rows:
                row.wants_reload = False
            head.round += 1

    def _settle(self, votes: set[int]) -> None:
        if len(votes) == 1 and 0 not in votes:
            self._head.models = votes.pop()
        self._head.decided = self._head.round


class ServiceProcess:
    """One of several processes of a service: its own row of their table, and what it may know of the others.

    Args:
        table: What all share.
        index: Number of this process, from 0.

    Attributes:
        index: The same.
        folder: A private folder of all of them.
        shared_weights: Where they find each other's packed weights.
    """

    def __init__(self, table: ProcessTable, index: int) -> None:
        self.index = index
        self.folder = table.folder
        self.shared_weights = table.weights.as_client()
        self._head = table._head
        self._rows = table._rows
        self._row = table._rows[index]
        self._row.pid = os.getpid()
        self._supervisor = os.getppid()
        self._round = int(self._row.voted)
        self._deferring_since = -math.inf
        self._num_accepted = -1

    @property
    def is_orphan(self) -> bool:
        """Whether the supervisor has ended."""
        return os.getppid() != self._supervisor

    def pids(self) -> Sequence[int]:
        """Returns the ids of the processes that run, and of their supervisor."""
        return [self._supervisor, *(int(row.pid) for row in self._rows if row.pid)]

    def beat(self, *, is_leaving: bool, is_stuck: bool) -> None:
        """Show the others that this event loop runs, and its state; to be called several times a second."""
        self._row.beat = time.monotonic()
        self._row.is_stuck = is_stuck
        if is_leaving:
            self.leave()

    def leave(self) -> None:
        """Leave new connections to the other processes."""
        # One that has not joined yet must be able to: a signal does not stop its checkpoints from loading.
        if self._row.state == State.READY:
            self._row.state = State.LEAVING

    # Connections

    def may_accept(self) -> bool:
        """Returns whether the next connection is for this process: another one that serves may have fewer.

        After some milliseconds the answer is yes, because the other process may be busy.
        """
        now = time.monotonic()
        serving = [row for row in self._rows if _is_serving(row, now)]
        if not serving:
            return True
        spare = sum(row.connections for row in serving) // _CONNECTIONS_PER_SPARE
        if self._row.state == State.READY and self._row.connections <= spare + min(
            row.connections for row in serving
        ):
            return True
        accepted = sum(row.accepted for row in self._rows)
        if accepted != self._num_accepted:
            # The connection that this process has left to another one was accepted: this is the next one.
            self._num_accepted, self._deferring_since = accepted, now
        return self._row.state == State.READY and now - self._deferring_since > _DEFERRING_SECONDS

    def open_connection(self) -> None:
        """Count a connection that this process has accepted."""
        self._row.accepted += 1
        self._row.connections += 1

    def close_connection(self) -> None:
        """Count a connection that is closed."""
        self._row.connections -= 1

    def listen(self) -> None:
        """Tell the others that this process accepts connections."""
        self._row.is_listening = True

    def stop_listening(self) -> bool:
        """Tell the others that this process accepts no more connections.

        Returns:
            Whether no other process accepts those that wait.
        """
        self._row.is_listening = False
        return not any(row.is_listening for row in self._rows)

    # Reloads

    def request_reload(self) -> None:
        """Have all processes load the checkpoints again; a round that this one is about to begin does so."""
        if self._round == self._head.round:
            self._row.wants_reload = True

    def begin_round(self) -> bool:
        """Returns whether a new round of reloading has begun, and counts it as begun by this process."""
        has_begun = bool(self._round < self._head.round)
        self._round = int(self._head.round)
        return has_begun

    async def agree(self, checkpoints: Iterable[str]) -> None:
        """Vote for checkpoints that this process has loaded, and wait for the decision.

        Args:
            checkpoints: Name and checksum of each.

        Raises:
            CheckpointError: If the other processes go on with other checkpoints.
        """
        vote = _fingerprint(checkpoints)
        is_newcomer = self._row.state == State.LOADING
        # A later decision than this is about the vote: that of this round, or for a newcomer the next one.
        decided = self._head.decided if is_newcomer else self._round - 1
        self._vote(vote)
        if is_newcomer:
            self._row.state = State.JOINING
        while self._head.models != vote:
            if self._head.decided > decided:
                raise CheckpointError("the other processes have not loaded the same checkpoints")
            await asyncio.sleep(_POLL_SECONDS)
        if is_newcomer and self._head.decided == self._head.round:
            # It serves what that round decided, and so need not load the checkpoints for it again.
            self._round = self._row.voted = int(self._head.round)

    async def become_ready(self) -> None:
        """Take part in serving, together with the processes that join at the same time.

        Otherwise the first of them would get all clients that wait for the service to become ready. Until
        this returns, the process gets no connection while another one serves.
        """
        self._row.state = State.JOINED
        while any(row.state == State.JOINING and row.vote == self._head.models for row in self._rows):
            await asyncio.sleep(_JOINING_SECONDS)
        self._row.state = State.READY

    def refuse(self) -> None:
        """Vote against the present round, unless this process has voted: its checkpoints cannot be loaded."""
        if self._row.voted < self._round:
            self._vote(0)

    def _vote(self, vote: int) -> None:
        self._row.vote = vote
        self._row.voted = self._round


def _is_serving(row: _Row, now: float) -> bool:
    return bool(row.state == State.READY and not row.is_stuck and now - row.beat < _BEAT_SECONDS)


def _fingerprint(checkpoints: Iterable[str]) -> int:
    """Returns a number that differs between checkpoints; never 0."""
    digest = hashlib.sha256("\n".join(checkpoints).encode()).digest()
    return int.from_bytes(digest[:7], "big") + 1
