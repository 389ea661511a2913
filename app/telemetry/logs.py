"""Logs: one JSON line an event, with the id of its request; never a user's text."""

import errno
import json
import logging
import random
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType

from pydantic_core import PydanticSerializationError, to_json

from model.errors import TranslationError

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)

# Of every record, and of uvicorn's.
_STANDARD = vars(logging.makeLogRecord({})).keys() | {"message", "color_message"}


def new_request_id() -> str:
    """A new id of 32 hexadecimal digits; not a secret, so not worth the system call that secrets need."""
    return f"{random.getrandbits(128):032x}"


class JsonFormatter(logging.Formatter):
    """Writes level, logger, message and the fields of `extra`.

    Of an exception it only writes the type and the traceback: the message may hold what a user sent.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The JSON line of an event."""
        time = datetime.fromtimestamp(record.created, UTC).replace(tzinfo=None)
        event: dict[str, object] = {
            "time": f"{time.isoformat(timespec='milliseconds')}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        if (current := request_id.get()) is not None:
            event["request_id"] = current
        event |= {key: value for key, value in vars(record).items() if key not in _STANDARD}
        if record.exc_info and record.exc_info[1] is not None:
            event |= describe_fault(record.exc_info[1])
        try:
            return to_json(event, ensure_ascii=True, fallback=str).decode()
        except PydanticSerializationError:  # a file name that is not UTF-8
            return json.dumps(event, default=str)


def describe_fault(fault: BaseException) -> dict[str, object]:
    """The type and the traceback of an exception, outermost call first; never its message.

    Of an error of the system also its name, such as ENOSPC.
    """
    fields: dict[str, object] = {"fault": type(fault).__name__, "trace": _traceback(fault.__traceback__)}
    if isinstance(fault, OSError) and fault.errno is not None:
        fields["errno"] = errno.errorcode.get(fault.errno, fault.errno)
    return fields


def describe_failure(failure: Exception) -> dict[str, object]:
    """Log fields of a failure: the message if a person can act on it, else type and traceback."""
    is_plain = isinstance(failure, (TranslationError, OSError))
    return {"reason": str(failure)} if is_plain else describe_fault(failure)


def _traceback(trace: TracebackType | None) -> list[str]:
    places = []
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{code.co_filename}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return places


def set_up_logs(level: str) -> None:
    """Write all events from this level up to standard error, uvicorn's included."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    # No line shows these, so they need not be looked up (https://docs.python.org/3/howto/logging.html#optimization).
    logging._srcfile = ""
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # uvicorn logs each stage of start and shutdown, which our own events cover in fewer lines.
    logging.getLogger("uvicorn.error").setLevel(max(logging.WARNING, logging.getLogger().level))
