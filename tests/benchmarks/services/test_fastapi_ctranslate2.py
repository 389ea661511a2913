"""A plain micro-batcher: batches of equal limits, no waiting while idle, every answer to its own request."""

import asyncio
import threading
from collections.abc import Sequence
from types import SimpleNamespace

from benchmarks.services.fastapi_ctranslate2 import MicroBatcher


class Double:
    """Translates tokens into themselves once it may; notes what it was given."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int]] = []
        self.may_answer = threading.Event()

    def translate_batch(
        self, tokens: Sequence[list[str]], *, max_decoding_length: int, **options: object
    ) -> list[SimpleNamespace]:
        self.calls.append((len(tokens), max_decoding_length))
        assert self.may_answer.wait(60)
        return [SimpleNamespace(hypotheses=[each]) for each in tokens]


async def translate(
    double: Double, sources: Sequence[tuple[list[str], int]], **limits: int
) -> list[list[str]]:
    batcher = MicroBatcher(double, workers=1, most=limits.get("most", 32), seconds=0.01)
    running = asyncio.create_task(batcher.run())
    first = asyncio.create_task(batcher.translate(*sources[0]))
    while not double.calls:
        await asyncio.sleep(0.001)
    others = [asyncio.create_task(batcher.translate(*source)) for source in sources[1:]]
    await asyncio.sleep(0)  # lets each of them join the queue
    double.may_answer.set()
    answers = await asyncio.gather(first, *others)
    running.cancel()
    return answers


def test_what_arrives_while_a_batch_is_decoded_shares_the_next_one() -> None:
    double = Double()
    sources = [([str(i)], 7) for i in range(5)]
    assert asyncio.run(translate(double, sources)) == [["0"], ["1"], ["2"], ["3"], ["4"]]
    assert double.calls == [(1, 7), (4, 7)]


def test_requests_with_other_limits_and_above_the_size_wait_for_a_batch_of_their_own() -> None:
    double = Double()
    sources = [(["a"], 7), (["b"], 7), (["c"], 9), (["d"], 7), (["e"], 7)]
    asyncio.run(translate(double, sources, most=2))
    assert double.calls == [(1, 7), (2, 7), (1, 9), (1, 7)]
