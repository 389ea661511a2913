"""The service in a process of its own, with a double backend: `python -m tests.app.live`.

Options are environment variables, as for the real one. `DOUBLE_SECONDS` is how long a step takes,
`DOUBLE_PATIENCE` how many seconds a slow client is borne, `DOUBLE_POISON` a word that makes a step raise.
"""

import os

from app.connection import protocol
from app.connection.server import serve
from app.main import create_app
from app.settings import Settings
from app.telemetry.logs import set_up_logs
from tests.app.double import DoubleBackend

if __name__ == "__main__":
    protocol._SECONDS = float(os.environ.get("DOUBLE_PATIENCE", protocol._SECONDS))
    settings = Settings(_env_file=None)
    set_up_logs(settings.log_level)
    backend = DoubleBackend(workers=settings.workers or 1)
    backend.seconds = float(os.environ.get("DOUBLE_SECONDS", "0"))
    backend.poison = os.environ.get("DOUBLE_POISON")
    serve(create_app(settings, backend), settings)
