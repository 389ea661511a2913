"""What is raced: engines that turn token ids into token ids; and ours. No torch until an engine needs it."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from model.decoding.engine import DecodingEngine
from model.decoding.sentence import Sentence
from model.errors import NativeError, TranslationError
from model.request import DecodeOptions, DecodeRequest

Ids = Sequence[int]
Translations = list[tuple[int, ...]]
OURS = "dragoman"


class Engine(Protocol):
    """A contestant, loaded from a folder and told how many threads it may keep busy."""

    def decode(self, sources: Sequence[Ids], options: DecodeOptions, batch_size: int) -> Translations:
        """The best translation of each source.

        Args:
            sources: Token ids, EOS included; the longest first, where lengths differ.
            options: Strategy greedy or beam, `beam_size`, `length_penalty`, `max_length`.
            batch_size: Sentences a thread decodes at a time.

        Returns:
            Token ids without EOS, in the order of the sources.
        """


Loader = Callable[[Path, str, int], Engine]
"""Makes an engine from a folder, a precision and a number of threads."""

_NO_BOUND = 10**9


class DragomanEngine:
    """Our engine, one a thread over the same weights; each keeps as many sentences in flight as it may."""

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
    engine: DecodingEngine,
    waiting: deque[tuple[int, DecodeRequest]],
    batch_size: int,
    done: dict[int, tuple[int, ...]],
) -> None:
    """Decode what waits until nothing does; several threads may share the queue."""
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


def native_dragoman(folder: Path, precision: str, threads: int) -> DragomanEngine:
    """Ours as the service runs it: what this machine has that is fastest."""
    from model.checkpoint.folder import load_checkpoint
    from model.decoding.factory import engine_factory

    factory = engine_factory(load_checkpoint(folder), device="cpu", precision=precision)
    return DragomanEngine([factory.make(max_batch_tokens=_NO_BOUND) for _ in range(threads)])


def torch_dragoman(folder: Path, precision: str, threads: int) -> DragomanEngine:
    """Ours on PyTorch: the reference, and the fallback where nothing was built."""
    import torch

    from model.checkpoint.folder import load_checkpoint
    from model.decoding.device import resolve_precision
    from model.decoding.factory import torch_factory

    torch.set_num_threads(1)
    factory = torch_factory(
        load_checkpoint(folder), "cpu", resolve_precision(precision, "cpu", is_native=False)
    )
    return DragomanEngine([factory.make(max_batch_tokens=_NO_BOUND) for _ in range(threads)])


def native_is_built() -> bool:
    """Whether this machine has the native library and can run it."""
    from model.native.binding import load_library

    try:
        load_library()
    except NativeError:
        return False
    return True


def beams(options: DecodeOptions) -> int:
    """Width of the search; 1 is greedy."""
    return options.beam_size if options.strategy == "beam" else 1
