"""Our engine as the benchmarks drive it; no torch for the native library."""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.engines import Ids, Translations
from model.checkpoint.folder import load_checkpoint
from model.decode_request import DecodeOptions, DecodeRequest
from model.decoding.device import resolve_precision
from model.decoding.engine import DecodingEngine
from model.decoding.factory import engine_factory, torch_engine
from model.decoding.sentence import Sentence
from model.errors import TranslationError

_UNBOUNDED = 10**9
_Waiting = deque[tuple[int, DecodeRequest]]


class DragomanEngine:
    """Continuous batching: one engine a thread over the same weights, each with `batch_size` in flight."""

    def __init__(self, engines: Sequence[DecodingEngine]) -> None:
        self._engines = engines
        self._threads = ThreadPoolExecutor(len(engines))

    def decode(self, sources: Sequence[Ids], options: DecodeOptions, batch_size: int) -> Translations:
        """See Engine."""
        waiting = deque((index, DecodeRequest(tuple(ids), options)) for index, ids in enumerate(sources))
        done: dict[int, tuple[int, ...]] = {}
        if len(self._engines) == 1:
            _drain(self._engines[0], waiting, batch_size, done)
        else:
            runs = [self._threads.submit(_drain, each, waiting, batch_size, done) for each in self._engines]
            for run in runs:
                run.result()
        return [done[index] for index in range(len(sources))]


def _drain(
    engine: DecodingEngine, waiting: _Waiting, batch_size: int, done: dict[int, tuple[int, ...]]
) -> None:
    """Decode until nothing is waiting; several threads may share the queue."""
    places: dict[Sentence, int] = {}
    while True:
        while len(places) < batch_size:
            try:
                index, request = waiting.popleft()
            except IndexError:
                break
            places[engine.add(request)] = index
        if not places:
            return
        for sentence, result in engine.step().finished:
            if isinstance(result, TranslationError):
                raise result
            done[places.pop(sentence)] = result[0].token_ids


def load(folder: Path, precision: str, threads: int, device: str) -> DragomanEngine:
    """Our engine as the service runs it: the native library on a CPU, recorded steps on a GPU."""
    factory = engine_factory(load_checkpoint(folder), device=device, precision=precision)
    return DragomanEngine([factory.make(max_batch_tokens=_UNBOUNDED) for _ in range(threads)])


def load_reference(folder: Path, precision: str, threads: int, device: str) -> DragomanEngine:
    """On PyTorch, every step at its exact size: what everything else is compared with."""
    import torch

    from model.decoding.pytorch.device_memory import load_network

    torch.set_num_threads(1)
    checkpoint = load_checkpoint(folder)
    network = load_network(checkpoint, device, resolve_precision(precision, device, is_native=False))
    tags = checkpoint.tokenizer.target_tag_ids
    engines = [
        torch_engine(network, device=device, never_produced=tags, max_batch_tokens=_UNBOUNDED)
        for _ in range(threads)
    ]
    return DragomanEngine(engines)
