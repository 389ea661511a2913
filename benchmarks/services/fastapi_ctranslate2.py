"""What many teams build: CTranslate2 behind FastAPI, with a micro-batcher; from an exported folder.

A request waits a few milliseconds for others to share its batch with, but not while the service is idle.
CTranslate2 takes one length limit a call, so that the requests of a batch have the same one.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import ctranslate2
import sentencepiece
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

_EOS = "</s>"


class Request(BaseModel):
    """A text to translate: the part of our interface that the benchmarks use."""

    q: str
    source: str
    target: str
    decoding: dict[str, str | int] = {}


Answering = Callable[[Request], Awaitable[str]]


@dataclass(frozen=True)
class _Waiting:
    tokens: list[str]
    max_length: int
    translated: "asyncio.Future[list[str]]"


class MicroBatcher:
    """Collects requests into batches, and keeps every worker of CTranslate2 busy with one."""

    def __init__(
        self,
        translator: ctranslate2.Translator,
        *,
        workers: int,
        most: int = 32,
        seconds: float = 0.002,
        search: Mapping[str, float] | None = None,
    ) -> None:
        self._translator, self._threads = translator, ThreadPoolExecutor(workers)
        self._most, self._seconds = most, seconds
        self._search = search or {"beam_size": 1}
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue()
        self._free = asyncio.Semaphore(workers)
        self._busy = 0
        self._running: set[asyncio.Task[None]] = set()

    async def translate(self, tokens: list[str], max_length: int) -> list[str]:
        """Target tokens of one sentence."""
        translated: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait(_Waiting(tokens, max_length, translated))
        return await translated

    async def run(self) -> None:
        """Form batches until cancelled."""
        left_over: list[_Waiting] = []
        while True:
            await self._free.acquire()
            batch, left_over = await self._collect(left_over)
            self._busy += 1
            task = asyncio.create_task(self._decode(batch))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _collect(self, waiting: list[_Waiting]) -> tuple[list[_Waiting], list[_Waiting]]:
        """A batch of requests that share the first one's limit, and the others."""
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
        results = self._translator.translate_batch(
            [each.tokens for each in batch],
            max_decoding_length=batch[0].max_length,
            min_decoding_length=0,
            **self._search,
        )
        return [result.hypotheses[0] for result in results]


def create_app(answer: Answering, batcher: MicroBatcher | None) -> FastAPI:
    """The service, which gives each text the answer of a function."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(batcher.run()) if batcher else None
        yield
        if task:
            task.cancel()

    app = FastAPI(lifespan=lifespan)

    @app.get("/readyz")
    async def ready() -> dict[str, str]:
        return {"status": "ok"}

    @app.post("/translate")
    async def translate(request: Request) -> dict[str, str]:
        return {"translatedText": await answer(request)}

    return app


async def _echo(request: Request) -> str:
    return request.q


def _translating(folder: Path, batcher: MicroBatcher, tags: Mapping[str, str]) -> Answering:
    pieces = sentencepiece.SentencePieceProcessor(str(folder / "tokenizer.model"))

    async def translate(request: Request) -> str:
        tag = tags.get(request.target)
        tokens = [*([tag] if tag else []), *pieces.encode(request.q, out_type=str), _EOS]
        translated: str = pieces.decode(await batcher.translate(tokens, int(request.decoding["max_length"])))
        return translated

    return translate


def main(port: str, options: str = "") -> None:
    """Serve on a port of 127.0.0.1.

    Args:
        port: The port.
        options: JSON with `folder`, `workers`, `device`, `compute_type`, `beam_size` and `length_penalty`;
            without them, texts are echoed.
    """
    app = create_app(_echo, None)
    if options:
        given = json.loads(options)
        folder, workers = Path(given["folder"]), given["workers"]
        description = json.loads((folder / "dragoman.json").read_text(encoding="utf-8"))
        translator = ctranslate2.Translator(
            str(folder),
            device=given["device"],
            compute_type=given["compute_type"],
            inter_threads=workers,
            intra_threads=1,
        )
        search = {name: given[name] for name in ("beam_size", "length_penalty")}
        batcher = MicroBatcher(translator, workers=workers, search=search)
        app = create_app(_translating(folder, batcher, description["language_tags"]), batcher)
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="error", access_log=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
