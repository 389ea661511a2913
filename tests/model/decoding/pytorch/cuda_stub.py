"""A strict stand-in for CUDA graphs on a CPU: what a GPU would forbid raises here.

A recording executes nothing that can be seen: what the work overwrites is restored at its end. A replay
repeats the recorded operators on the recorded tensors, so that a number that the host computed anew, or a
tensor that was made anew, gives wrong results, as it does on a GPU.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from model.decoding.pytorch import device_use
from tests.model.decoding.pytorch.legality import Operator, illegality, is_composite, places_of, tensors_in


class CaptureError(torch.AcceleratorError):
    """What CUDA reports of an operation that a recording forbids."""


@dataclass
class StubCuda:
    """The state of the pretended device.

    Attributes:
        recorder: The thread that records; None if none does.
        violations: What was done although a recording forbids it.
        fail: By place (`begin`, `body`, `end`, `synchronize`), what to raise there, in this order.
        calls: How often each function was called.
        is_lost: Whether every call fails from now on.
        pools: The memory of recordings that the allocator believes to go on; PyTorch's does so even after one
            that could not be ended (pytorch/pytorch#180395).
        events_ahead: For each time that the host waited for an event of the thread's first stream, how many
            events were recorded on the stream since.
    """

    recorder: int | None = None
    violations: list[str] = field(default_factory=list)
    fail: dict[str, list[Exception]] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    is_lost: bool = False
    pools: list[int] = field(default_factory=list)
    events_ahead: list[int] = field(default_factory=list)
    streams: dict[int, list["StubStream"]] = field(default_factory=dict)

    current: ClassVar["StubCuda"]

    def count(self, name: str) -> None:
        """Record a call, and fail if that was asked for."""
        self.calls[name] += 1
        if self.is_lost:
            raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")
        if self.fail.get(name):
            raise self.fail[name].pop(0)

    def forbid_while_recording(self, name: str) -> None:
        """Refuse what waits for the device, queries it or allocates while any thread records."""
        self.count(name)
        if self.recorder is not None:
            whose = "its own" if self.recorder == threading.get_ident() else "another thread's"
            self.violations.append(f"{name} in {whose} recording")
            raise CaptureError(f"operation not permitted when stream is capturing: {name}")

    def forbid_to_others(self, name: str) -> None:
        """Refuse any use of the device by other threads while one records."""
        self.count(name)
        if self.recorder not in (None, threading.get_ident()):
            self.violations.append(f"{name} in another thread's recording")
            raise CaptureError(f"operation not permitted when stream is capturing: {name}")

    def empty_cache(self) -> None:
        """Refuse while any thread records, or the allocator still takes from the memory of a recording."""
        self.forbid_while_recording("empty_cache")
        if self.pools:
            raise RuntimeError("captures_underway.empty() INTERNAL ASSERT FAILED")

    def end_allocate_to_pool(self, device: int, pool: int) -> None:
        """The allocator no longer takes from this memory."""
        if pool not in self.pools:
            raise RuntimeError("endAllocatePool: not currently recording to mempool_id")
        self.pools.remove(pool)

    def stack(self) -> list["StubStream"]:
        """The streams of this thread, the current one last."""
        return self.streams.setdefault(threading.get_ident(), [StubStream()])


class StubStream:
    """A stream whose work is done at once, but which is waited for explicitly."""

    def __init__(self, device: object = None) -> None:
        StubCuda.current.count("stream")
        self.waits: list[object] = []
        self.events = 0

    def wait_stream(self, other: "StubStream") -> None:
        StubCuda.current.forbid_to_others("wait_stream")
        self.waits.append(other)

    def wait_event(self, event: "StubEvent") -> None:
        StubCuda.current.forbid_to_others("wait_event")
        assert event.is_recorded
        self.waits.append(event)

    def synchronize(self) -> None:
        StubCuda.current.forbid_while_recording("synchronize")


class StubEvent:
    """An event that has happened as soon as it was recorded."""

    def __init__(self) -> None:
        self.is_recorded = False

    def record(self, stream: StubStream | None = None) -> None:
        StubCuda.current.forbid_to_others("record")
        self.is_recorded = True
        self._stream = stream or StubCuda.current.stack()[-1]
        self._stream.events += 1
        self._place = self._stream.events

    def synchronize(self) -> None:
        StubCuda.current.forbid_while_recording("synchronize")
        assert self.is_recorded
        if self._stream is StubCuda.current.stack()[0]:
            StubCuda.current.events_ahead.append(self._stream.events - self._place)

    def query(self) -> bool:
        StubCuda.current.forbid_while_recording("query")
        return self.is_recorded


class _Tape(TorchDispatchMode):
    """Keeps operators and their tensors; undoes what they overwrite."""

    def __init__(self) -> None:
        super().__init__()
        self.operators: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], list[Tensor]]] = []
        self._own: set[int] = set()
        self._before: dict[int, tuple[Tensor, Tensor]] = {}

    def __torch_dispatch__(
        self, func: Operator, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> object:
        kwargs = kwargs or {}
        if is_composite(func):
            with self:
                return func.decompose(*args, **kwargs)
        StubCuda.current.count("body")
        if reason := illegality(func, args):
            raise CaptureError(f"operation not permitted when stream is capturing: {reason}")
        for argument, value in zip(func._schema.arguments, args, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write:
                for tensor in tensors_in(value):
                    self._save(tensor)
        result = func(*args, **kwargs)
        outputs = tensors_in(result)
        self._own |= places_of(outputs) - (places_of(tensors_in((*args, *kwargs.values()))) - self._own)
        self.operators.append((func, args, kwargs, outputs))
        return result

    def _save(self, tensor: Tensor) -> None:
        place = tensor.untyped_storage().data_ptr()
        if place not in self._own and place not in self._before:
            whole = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
            self._before[place] = whole, whole.clone()

    def restore(self) -> None:
        """Undo everything."""
        for whole, before in self._before.values():
            whole.copy_(before)

    def replay(self) -> None:
        """Do everything again, in the same memory."""
        for func, args, kwargs, outputs in self.operators:
            result = func(*args, **kwargs)
            for kept, new in zip(outputs, tensors_in(result), strict=True):
                if places_of([kept]) != places_of([new]):
                    kept.copy_(new)


class StubGraph:
    """A graph that is recorded by `recording` and replayed."""

    def __init__(self) -> None:
        self.tape: _Tape | None = None

    def replay(self) -> None:
        StubCuda.current.forbid_to_others("replay")
        assert self.tape is not None
        with _disable_current_modes():  # to the host, a replay is one operation
            self.tape.replay()


class recording:  # noqa: N801, as torch names it
    """torch.cuda.graph, with its order of steps: the stream is left only if the recording could be ended."""

    def __init__(
        self, graph: StubGraph, pool: int, stream: StubStream, capture_error_mode: str = "global"
    ) -> None:
        assert capture_error_mode == "thread_local"
        self._graph, self._pool, self._stream, self._tape = graph, pool, stream, _Tape()

    def __enter__(self) -> None:
        cuda = StubCuda.current
        cuda.forbid_while_recording("synchronize")
        cuda.empty_cache()
        cuda.stack().append(self._stream)
        cuda.pools.append(self._pool)
        cuda.count("begin")
        cuda.recorder = threading.get_ident()
        self._tape.__enter__()

    def __exit__(self, *error: object) -> None:
        cuda = StubCuda.current
        self._tape.__exit__(*error)
        self._tape.restore()
        cuda.recorder = None
        if error[1] is not None:
            # CUDA's own error hides the first one, which stays its context.
            raise CaptureError("operation failed due to a previous error during capture")
        cuda.count("end")
        cuda.end_allocate_to_pool(0, self._pool)
        self._graph.tape = self._tape
        cuda.stack().pop()


@contextmanager
def _on_stream(stream: StubStream) -> Iterator[None]:
    cuda = StubCuda.current
    cuda.forbid_to_others("enter stream")
    before = list(cuda.stack())
    cuda.stack().append(stream)
    try:
        yield
    finally:
        cuda.stack()[:] = before


@contextmanager
def _on_device(device: object) -> Iterator[None]:
    StubCuda.current.forbid_to_others("enter device")
    yield


def _pinned(tensor: Tensor) -> Tensor:
    StubCuda.current.forbid_while_recording("pin memory")
    return tensor


def install(monkeypatch: pytest.MonkeyPatch) -> StubCuda:
    """Make the CPU a strict GPU, in this process."""
    stub = StubCuda.current = StubCuda()
    monkeypatch.setattr(device_use, "is_cuda", lambda device: True)
    for name, value in {
        "CUDAGraph": StubGraph,
        "graph": recording,
        "graph_pool_handle": partial(next, count()),
        "current_device": lambda: 0,
        "Stream": StubStream,
        "Event": StubEvent,
        "stream": _on_stream,
        "device": _on_device,
        "current_stream": lambda device=None: stub.stack()[-1],
        "synchronize": lambda device=None: stub.forbid_while_recording("synchronize"),
        "empty_cache": stub.empty_cache,
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch._C, "_cuda_endAllocateToPool", stub.end_allocate_to_pool)
    monkeypatch.setattr(Tensor, "pin_memory", _pinned)
    monkeypatch.setattr(Tensor, "record_stream", lambda tensor, stream: None)
    return stub


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> StubCuda:
    """The stand-in, installed for one test."""
    return install(monkeypatch)
