"""What many teams build: CTranslate2 behind FastAPI, with a micro-batcher; from an exported folder.

python -m benchmarks.peers.fastapi_ctranslate2 --model FOLDER --port 8001 --workers 2

A request waits a few milliseconds for others to share its batch with, but not while the service is idle;
then the batch is decoded as a whole. CTranslate2 takes one length limit a call, so that a batch holds
requests with the same one.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import click
import ctranslate2
import sentencepiece
import uvicorn
from fastapi import FastAPI

from benchmarks.peers.micro_batcher import MicroBatcher
from benchmarks.peers.requests import Answer, Request

_EOS = "</s>"


def create_app(
    folder: Path,
    *,
    workers: int,
    most: int,
    seconds: float,
    beam_size: int,
    length_penalty: float,
    compute_type: str,
) -> FastAPI:
    """The service over an exported folder."""
    description = json.loads((folder / "dragoman.json").read_text(encoding="utf-8"))
    pieces = sentencepiece.SentencePieceProcessor(str(folder / "tokenizer.model"))
    translator = ctranslate2.Translator(
        str(folder), compute_type=compute_type, inter_threads=workers, intra_threads=1
    )
    batcher = MicroBatcher(
        translator,
        workers=workers,
        most=most,
        seconds=seconds,
        beam_size=beam_size,
        length_penalty=length_penalty,
        longest=description["max_target_length"],
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(batcher.run())
        yield
        task.cancel()

    app = FastAPI(lifespan=lifespan)

    @app.get("/readyz")
    async def ready() -> dict[str, str]:
        return {"status": "ok"}

    @app.post("/translate")
    async def translate(request: Request) -> Answer:
        tag = description["language_tags"].get(request.target)
        tokens = [*([tag] if tag else []), *pieces.encode(request.q, out_type=str), _EOS]
        translated = await batcher.translate(tokens, request.decoding.max_length)
        return Answer(translatedText=pieces.decode(translated))

    return app


@click.command()
@click.option("--model", "folder", type=click.Path(path_type=Path), required=True)
@click.option("--port", type=int, required=True)
@click.option("--workers", type=int, default=1)
@click.option("--most", type=int, default=32)
@click.option("--wait-ms", type=float, default=2.0)
@click.option("--beam-size", type=int, default=1)
@click.option("--length-penalty", type=float, default=1.0)
@click.option("--compute-type", default="int8")
def main(
    folder: Path,
    port: int,
    workers: int,
    most: int,
    wait_ms: float,
    beam_size: int,
    length_penalty: float,
    compute_type: str,
) -> None:
    """Serve on 127.0.0.1."""
    app = create_app(
        folder,
        workers=workers,
        most=most,
        seconds=wait_ms / 1000,
        beam_size=beam_size,
        length_penalty=length_penalty,
        compute_type=compute_type,
    )
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error", access_log=False)


if __name__ == "__main__":
    main()
