"""Collects requests into batches for CTranslate2, as a plain service does."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import ctranslate2

# As Dragoman limits a translation that nobody gave a limit.
_RATIO, _OFFSET = 3, 20


@dataclass(frozen=True)
class _Waiting:
    tokens: list[str]
    max_length: int | None
    translated: "asyncio.Future[list[str]]"


class MicroBatcher:
    """Collects requests into batches, and keeps every worker of CTranslate2 busy with one.

    Args:
        translator: Its `inter_threads` is the number of workers.
        workers: See there.
        most: Sentences in a batch at most.
        seconds: How long a batch that is not full waits while others are decoded.
        beam_size: 1 is greedy.
        length_penalty: See `model.request.DecodeOptions`.
        longest: Most tokens of any translation.
    """

    def __init__(
        self,
        translator: ctranslate2.Translator,
        *,
        workers: int,
        most: int,
        seconds: float,
        beam_size: int,
        length_penalty: float,
        longest: int,
    ) -> None:
        self._translator, self._threads = translator, ThreadPoolExecutor(workers)
        self._most, self._seconds = most, seconds
        self._beam_size, self._length_penalty, self._longest = beam_size, length_penalty, longest
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue()
        self._free = asyncio.Semaphore(workers)
        self._busy = 0
        self._running: set[asyncio.Task[None]] = set()

    async def translate(self, tokens: list[str], max_length: int | None) -> list[str]:
        """Target tokens of one sentence."""
        translated: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait(_Waiting(tokens, max_length, translated))
        return await translated

    async def run(self) -> None:
        """Form batches for ever."""
        left_over: list[_Waiting] = []
        while True:
            await self._free.acquire()
            batch, left_over = await self._collect(left_over)
            self._busy += 1
            task = asyncio.create_task(self._decode(batch))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _collect(self, waiting: list[_Waiting]) -> tuple[list[_Waiting], list[_Waiting]]:
        """A batch of those that share the first one's limit, and the others."""
        if not waiting:
            waiting = [await self._queue.get()]
        deadline = asyncio.get_running_loop().time() + self._seconds
        while True:
            while not self._queue.empty():
                waiting.append(self._queue.get_nowait())
            alike = [each for each in waiting if each.max_length == waiting[0].max_length][: self._most]
            patience = deadline - asyncio.get_running_loop().time()
            if len(alike) == self._most or not self._busy or patience <= 0:
                chosen = set(map(id, alike))
                return alike, [each for each in waiting if id(each) not in chosen]
            try:
                waiting.append(await asyncio.wait_for(self._queue.get(), patience))
            except TimeoutError:
                continue

    async def _decode(self, batch: Sequence[_Waiting]) -> None:
        try:
            results = await asyncio.get_running_loop().run_in_executor(self._threads, self._call, batch)
            for each, tokens in zip(batch, results, strict=True):
                each.translated.set_result(tokens)
        except Exception as error:
            for each in batch:
                each.translated.set_exception(error)
        finally:
            self._busy -= 1
            self._free.release()

    def _call(self, batch: Sequence[_Waiting]) -> list[list[str]]:
        longest_source = max(len(each.tokens) for each in batch)
        limit = batch[0].max_length or min(self._longest, _RATIO * longest_source + _OFFSET)
        results = self._translator.translate_batch(
            [each.tokens for each in batch],
            beam_size=self._beam_size,
            length_penalty=self._length_penalty,
            max_decoding_length=limit,
            min_decoding_length=0,
        )
        return [result.hypotheses[0] for result in results]
