"""⑤ Many sentences on several engines at once, each on a thread of its own. No torch."""

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from threading import Event, Lock

from model.decoding.engine import DecodingEngine
from model.decoding.runner import Result
from model.request import DecodeRequest


def decode_in_parallel(
    engines: Sequence[DecodingEngine],
    requests: Sequence[DecodeRequest],
    progress: Callable[[int], object] | None = None,
) -> list[Result]:
    """See DecodingEngine.decode; every engine gets equally many sentences of each length.

    Args:
        engines: At least one, all idle and over the same network.
        requests: Any mix of lengths and options.
        progress: Called with the number of requests done since the last call, by one thread at a time.
    """
    longest_first = sorted(range(len(requests)), key=lambda i: -len(requests[i].source_ids))
    shares = [longest_first[first :: len(engines)] for first in range(len(engines))]
    lock, is_over = Lock(), Event()

    def report(count: int) -> None:
        if is_over.is_set():
            raise CancelledError
        with lock:
            if progress is not None:
                progress(count)

    def decode(engine: DecodingEngine, share: Sequence[int]) -> list[Result]:
        return engine.decode([requests[i] for i in share], progress=report)

    with ThreadPoolExecutor(len(engines)) as pool:
        decoding = [pool.submit(decode, *each) for each in zip(engines, shares, strict=True)]
        try:
            for finished in as_completed(decoding):
                finished.result()
        except BaseException:
            is_over.set()  # nobody waits for what the others would still find
            raise
    parts = [each.result() for each in decoding]
    results = dict(
        pair for share, part in zip(shares, parts, strict=True) for pair in zip(share, part, strict=True)
    )
    return [results[i] for i in range(len(requests))]
