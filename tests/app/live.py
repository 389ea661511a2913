"""The service in a process of its own, with a double backend: `python -m tests.app.live`.

Options are environment variables, as for the real one. `DOUBLE_SECONDS` is how long a batch takes,
`DOUBLE_PATIENCE` how many seconds a slow client is borne.
"""

import os
import time
from collections.abc import Sequence

from app.api import protocol
from app.backend import Outcome
from app.logs import set_up_logs
from app.main import create_app
from app.server import serve
from app.settings import Settings
from model.decoding.observer import Observer
from model.request import DecodeRequest
from tests.app.double import DoubleBackend


class SlowBackend(DoubleBackend):
    """A double that takes its time."""

    def decode(self, model: str, requests: Sequence[DecodeRequest], observer: Observer) -> list[Outcome]:
        time.sleep(float(os.environ.get("DOUBLE_SECONDS", "0")))
        return super().decode(model, requests, observer)


if __name__ == "__main__":
    protocol._SECONDS = float(os.environ.get("DOUBLE_PATIENCE", protocol._SECONDS))
    settings = Settings(_env_file=None)
    set_up_logs(settings.log_level)
    serve(create_app(settings, SlowBackend()), settings)
