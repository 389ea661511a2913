"""One JSON line an event, with the id of the request it belongs to; never a user's text."""

import json
import logging
import random
import sys
import time
from contextvars import ContextVar
from functools import lru_cache
from types import TracebackType

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)


def new_request_id() -> str:
    """32 hexadecimal digits; no secret, so not worth the system call that secrets need."""
    return f"{random.getrandbits(128):032x}"


_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}

_TO_JSON = json.JSONEncoder(ensure_ascii=True, default=str).encode


class JsonFormatter(logging.Formatter):
    """Level, logger, message and whatever `extra` holds.

    Of an exception only its type and place are written: its message may hold what a user sent.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        event: dict[str, object] = {
            "time": f"{_second(int(record.created))}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        if (current := request_id.get()) is not None:
            event["request_id"] = current
        event |= {key: value for key, value in vars(record).items() if key not in _STANDARD}
        if record.exc_info and record.exc_info[1] is not None:
            event |= describe_fault(record.exc_info[1])
        return _TO_JSON(event)


@lru_cache(maxsize=1)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def describe_fault(fault: BaseException) -> dict[str, object]:
    """Type of an exception and the places it came through, outermost first; never its message."""
    return {"fault": type(fault).__name__, "trace": _places(fault.__traceback__)}


def _places(trace: TracebackType | None) -> list[str]:
    places = []
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{code.co_filename}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return places


def set_up_logs(level: str) -> None:
    """Write all events from this level up to standard error, uvicorn's among them."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    # What no line shows need not be found out for each.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # It tells of each stage of its start and end, which our own events do in fewer words.
    logging.getLogger("uvicorn.error").setLevel(max(logging.WARNING, logging.getLogger().level))
