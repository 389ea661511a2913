"""FastAPI that answers with the text it got: what HTTP alone costs.

python -m benchmarks.peers.echo --port 8002
"""

import click
import uvicorn
from fastapi import FastAPI

from benchmarks.peers.requests import Answer, Request


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
