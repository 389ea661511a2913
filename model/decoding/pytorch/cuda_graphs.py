"""⑤ Work of fixed shape, recorded as a CUDA graph and replayed: one launch instead of hundreds."""

from collections.abc import Callable, Hashable

import torch


class CudaGraphs:
    """Graphs by the shape of their work, in shared memory; on a CPU the work is run directly.

    The work reads and writes tensors whose addresses never change, takes no decision on the host and
    copies nothing between host and device.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._graphs: dict[Hashable, torch.cuda.CUDAGraph] = {}
        self._seen: set[Hashable] = set()

    def __len__(self) -> int:
        return len(self._graphs)

    def run(self, shape: Hashable, work: Callable[[], None]) -> None:
        """Run the work, by its graph if there is one; a graph is recorded when a shape occurs again.

        The first run is the trial run that PyTorch requires before a recording.
        """
        if self._device.type != "cuda":
            work()
            return
        with torch.cuda.device(self._device):
            if shape not in self._graphs and shape in self._seen:
                self._graphs[shape] = self._record(work)
            if shape in self._graphs:
                self._graphs[shape].replay()
            else:
                self._seen.add(shape)
                work()

    def _record(self, work: Callable[[], None]) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        memory = next(iter(self._graphs.values())).pool() if self._graphs else None
        # Other threads may use the device meanwhile; their work is neither recorded nor an error.
        with torch.cuda.graph(graph, pool=memory, capture_error_mode="thread_local"):
            work()
        return graph

    def clear(self) -> None:
        """Free the graphs and their memory."""
        self._graphs.clear()
        self._seen.clear()
