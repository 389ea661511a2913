"""⑤ Access to a GPU: transfers, the policy for errors, and recordings of repeated work.

    out of memory   MemoryError; the caller has less computed at once
    another error   raised as it is: the sentence at fault fails alone
    a lost device   DeviceLostError: CUDA repeats some errors in every later call of the process

Work of fixed shape is recorded as a CUDA graph and replayed: one launch instead of hundreds. One thread of
the process records at a time, and no other uses a GPU meanwhile. A shape of work is in one of three states:

    new        it runs eagerly, until `prepare` or often enough until `run` records it
    recorded   it is replayed
    eager      it could not be recorded, and runs eagerly from then on
"""

import logging
import threading
import traceback
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from weakref import WeakSet

import torch
from torch import Tensor

from model.errors import DeviceLostError

# PyTorch's CPU allocator has no error class of its own, only this message.
_CPU_MESSAGE = "can't allocate memory"

logger = logging.getLogger(__name__)

# A recording stops the other threads for some ten milliseconds, as long as dozens of eager steps.
_RUNS_BEFORE_RECORDING = 32
# A graph of a step takes about a megabyte.
_MOST_GRAPHS = 256
# If so many recordings fail, others would too.
_MOST_FAILURES = 8


class RecordingGate:
    """Lets threads use the GPUs of the process together, or one thread record alone.

    PyTorch allows one recording in a process. Until it ends, no thread may wait for a whole device or empty
    its caches, which an allocation does when memory is short.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._users: Counter[int] = Counter()
        self._recorder: int | None = None

    @contextmanager
    def use(self) -> Iterator[None]:
        """Use a device for some milliseconds; waits for another thread's recording."""
        me = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: me in self._users or self._recorder in (None, me))
            self._users[me] += 1
        try:
            yield
        finally:
            with self._changed:
                self._users -= Counter([me])
                self._changed.notify_all()

    @contextmanager
    def record(self) -> Iterator[None]:
        """Record, after all other threads have stopped using a device; they wait until the end of the block.

        Raises:
            RuntimeError: If this thread uses a device: two such threads would wait for each other.
        """
        me = threading.get_ident()
        with self._changed:
            if me in self._users:
                raise RuntimeError("a thread that uses a device may record only if it need not wait")
            self._changed.wait_for(lambda: self._recorder is None)
            self._recorder = me
            self._changed.wait_for(lambda: not self._users)
        try:
            yield
        finally:
            self._release()

    @contextmanager
    def record_if_alone(self) -> Iterator[bool]:
        """Record if no other thread uses a device or records; the value is whether that is so."""
        me = threading.get_ident()
        with self._changed:
            is_alone = self._recorder is None and not self._users.keys() - {me}
            if is_alone:
                self._recorder = me
        try:
            yield is_alone
        finally:
            if is_alone:
                self._release()

    def _release(self) -> None:
        with self._changed:
            self._recorder = None
            self._changed.notify_all()


GATE = RecordingGate()
"""The gate of this process: recordings exclude each other on all devices."""


def is_cuda(device: torch.device) -> bool:
    """Returns whether a device has streams, graphs and memory of its own."""
    return device.type == "cuda"


@contextmanager
def using(device: torch.device) -> Iterator[None]:
    """Use a device for one call of a runner, and translate its errors.

    Raises:
        MemoryError: If the device ran out of memory; what can be freed has been freed.
        DeviceLostError: If the device answers no more in this process.
    """
    with GATE.use() if is_cuda(device) else nullcontext():
        try:
            # PyTorch finds the device by the tensors; Triton uses the thread's.
            with torch.cuda.device(device) if is_cuda(device) else nullcontext():
                yield
        except RuntimeError as error:
            if is_out_of_memory(error):
                # The frames of the error refer to what they had computed so far.
                traceback.clear_frames(error.__traceback__)
                if is_cuda(device):
                    torch.cuda.empty_cache()
                raise MemoryError(str(error).partition("\n")[0]) from error
            require_device(device, error)
            raise


def to_device(values: Sequence[int] | Tensor, device: torch.device) -> Tensor:
    """Integers, or a tensor, on a device; the transfer to a GPU is asynchronous."""
    tensor = values if isinstance(values, Tensor) else torch.tensor(values, dtype=torch.int64)
    if is_cuda(device) and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


class Transfer:
    """A copy of a tensor on its way to the host, which may wait for it later.

    Args:
        tensor: What is copied; it may change as soon as this returns.
    """

    def __init__(self, tensor: Tensor) -> None:
        self._copy = tensor.to("cpu", copy=True, non_blocking=True)
        self.is_done: torch.cuda.Event | None = None
        if is_cuda(tensor.device):
            self.is_done = torch.cuda.Event()
            self.is_done.record(torch.cuda.current_stream(tensor.device))

    def wait(self) -> Tensor:
        """The copy, after the device has done all that it was given before the transfer."""
        if self.is_done is not None:
            self.is_done.synchronize()
        return self._copy


def is_out_of_memory(error: BaseException | None) -> bool:
    """Returns whether an error is a lack of memory, or follows from one, as at the end of a recording."""
    if error is None:
        return False
    is_itself = isinstance(error, torch.OutOfMemoryError) or _CPU_MESSAGE in str(error)
    return is_itself or is_out_of_memory(error.__context__)


def require_device(device: torch.device, error: RuntimeError) -> None:
    """Check after an error that the device still answers.

    Raises:
        DeviceLostError: If it does not.
    """
    if not isinstance(error, torch.AcceleratorError):
        return
    try:
        torch.cuda.synchronize(device)
    except RuntimeError:
        reason = str(error).partition("\n")[0]
        raise DeviceLostError(f"{device} answers no more, only a new process can use it: {reason}") from error


class CudaGraphs:
    """Graphs by the shape of their work, in shared memory; on a CPU the work is run directly.

    The work reads and writes tensors whose addresses never change, takes no decision on the host and
    copies nothing between host and device. A recording executes nothing, so a failed one changes nothing.

    Args:
        device: Where the work runs.
        most: Most graphs at once; the one that was used least recently is freed first.
    """

    def __init__(self, device: torch.device, *, most: int = _MOST_GRAPHS) -> None:
        self._device, self._most = device, most
        self._graphs: OrderedDict[Hashable, torch.cuda.CUDAGraph] = OrderedDict()
        self._runs: Counter[Hashable] = Counter()
        self._eager: set[Hashable] = set()
        self._is_recording_possible = is_cuda(device)
        if self._is_recording_possible:
            self._stream = torch.cuda.Stream(device)
            self._pool = torch.cuda.graph_pool_handle()
            with _ALL_LOCK:
                _ALL.add(self)

    def __len__(self) -> int:
        return len(self._graphs)

    @property
    def num_eager(self) -> int:
        """Shapes that could not be recorded."""
        return len(self._eager)

    def prepare(self, shape: Hashable, work: Callable[[], object]) -> None:
        """Run the work and record it; all other threads that use a device wait meanwhile.

        A failure is logged: the work then runs eagerly when it is asked for.

        Raises:
            DeviceLostError: If the device answers no more.
        """
        if not self._is_recording_possible:
            return
        with GATE.record(), torch.cuda.device(self._device):
            try:
                self._try_out(work)
            except RuntimeError as error:
                self._give_up(shape, error)
            else:
                self._record(shape, work)

    def run(self, shape: Hashable, work: Callable[[], object]) -> None:
        """Run the work, by its graph if there is one."""
        graph = self._graphs.get(shape)
        if graph is not None:
            self._graphs.move_to_end(shape)
            with torch.cuda.device(self._device):
                graph.replay()
        elif self._is_due(shape):
            with GATE.record_if_alone() as is_alone, torch.cuda.device(self._device):
                self._try_out(work)
                if is_alone:
                    self._record(shape, work)
        else:
            work()

    def _is_due(self, shape: Hashable) -> bool:
        if not self._is_recording_possible or shape in self._eager:
            return False
        self._runs[shape] += 1
        return self._runs[shape] >= _RUNS_BEFORE_RECORDING

    def _try_out(self, work: Callable[[], object]) -> None:
        """Run the work where it will be recorded: libraries keep handles and memory by thread and stream."""
        current = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(current)
        try:
            with torch.cuda.stream(self._stream):
                work()
        finally:
            current.wait_stream(self._stream)

    def _record(self, shape: Hashable, work: Callable[[], object]) -> None:
        graph = torch.cuda.CUDAGraph()
        try:
            # `torch.cuda.graph` keeps its stream current if the recording fails; the first block does not.
            with (
                torch.cuda.stream(self._stream),
                torch.cuda.graph(
                    graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"
                ),
            ):
                work()
        except RuntimeError as error:
            self._leave_pool()
            self._give_up(shape, error)
        else:
            self._keep(shape, graph)

    def _leave_pool(self) -> None:
        """Record into other memory from now on, as PyTorch never frees that of a failed recording.

        Nor does its allocator always notice the end of one (pytorch/pytorch#180395). Then no cache could be
        emptied, which each recording begins with.
        """
        with suppress(RuntimeError):  # it has noticed
            torch._C._cuda_endAllocateToPool(torch.cuda.current_device(), self._pool)
        self._pool = torch.cuda.graph_pool_handle()

    def _keep(self, shape: Hashable, graph: torch.cuda.CUDAGraph) -> None:
        self._graphs[shape] = graph
        if len(self._graphs) > self._most:
            oldest, _ = self._graphs.popitem(last=False)
            del self._runs[oldest]

    def _give_up(self, shape: Hashable, error: RuntimeError) -> None:
        self._eager.add(shape)
        traceback.clear_frames(error.__traceback__)
        require_device(self._device, error)
        if is_out_of_memory(error):
            torch.cuda.empty_cache()
        # As text: a log record that is kept would keep the frames of the error.
        logger.warning("a step runs without a CUDA graph: %s; its shape is %s", _first_cause(error), shape)
        if len(self._eager) == _MOST_FAILURES:
            self._is_recording_possible = False
            logger.error("CUDA graphs are off: %d shapes could not be recorded", _MOST_FAILURES)

    def clear(self) -> None:
        """Free the graphs and their memory."""
        self._graphs.clear()
        self._runs.clear()
        self._eager.clear()


def _first_cause(error: BaseException) -> str:
    """The first line of the error that came first; the end of a recording only repeats that there was one."""
    while error.__context__ is not None:
        error = error.__context__
    return str(error).partition("\n")[0]


_ALL: WeakSet[CudaGraphs] = WeakSet()
_ALL_LOCK = threading.Lock()


def count_graphs() -> dict[str, int]:
    """Shapes of steps on the GPUs of this process by state: `recorded`, and `eager` after a failure.

    Empty if there is no GPU.
    """
    with _ALL_LOCK:
        every = list(_ALL)
    if not every:
        return {}
    return {"recorded": sum(map(len, every)), "eager": sum(each.num_eager for each in every)}
