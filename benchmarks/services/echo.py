"""FastAPI that answers with the text it got: what HTTP alone costs. Its schemas serve all peers."""

import click
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel


class Decoding(BaseModel):
    """The decoding options that the benchmarks send."""

    max_length: int | None = None


class Request(BaseModel):
    """A text to translate: the part of our interface that the benchmarks use."""

    q: str
    source: str
    target: str
    decoding: Decoding = Decoding()


class Answer(BaseModel):
    """Its translation."""

    translatedText: str


def create_app() -> FastAPI:
    """The service."""
    app = FastAPI()

    @app.get("/readyz")
    async def ready() -> dict[str, str]:
        return {"status": "ok"}

    @app.post("/translate")
    async def translate(request: Request) -> Answer:
        return Answer(translatedText=request.q)

    return app


@click.command()
@click.option("--port", type=int, required=True)
def main(port: int) -> None:
    """Serve on 127.0.0.1."""
    uvicorn.run(create_app(), host="127.0.0.1", port=port, log_level="error", access_log=False)


if __name__ == "__main__":
    main()
