"""⑤ CUDA graphs: work of fixed shape is recorded and replayed, with one launch instead of hundreds.

A shape of work is in one of three states:

    new        it runs eagerly, until `prepare` or often enough until `run` records it
    recorded   it is replayed
    eager      it could not be recorded, and runs eagerly from then on
"""

import logging
import threading
import traceback
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from weakref import WeakSet

import torch

from model.decoding.pytorch import device_use
from model.decoding.pytorch.device_use import is_out_of_memory, require_device

logger = logging.getLogger(__name__)

# A recording stops the other threads for some ten milliseconds, as long as dozens of eager steps.
_RUNS_BEFORE_RECORDING = 32
# A graph of a step takes about a megabyte.
_MOST_GRAPHS = 256
# If so many recordings fail, others would too.
_MOST_FAILURES = 8


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
        self._is_recording_possible = device_use.is_cuda(device)
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
        with device_use.GATE.record(), torch.cuda.device(self._device):
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
            with device_use.GATE.record_if_alone() as is_alone, torch.cuda.device(self._device):
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
