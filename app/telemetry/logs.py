"""Logs: one JSON line an event, with the id of its request; never a user's text."""

import asyncio
import errno
import json
import logging
import random
import sys
import time
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from functools import lru_cache
from itertools import islice
from types import TracebackType
from typing import TextIO

from pydantic_core import PydanticSerializationError, to_json

from model.errors import TranslationError

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)

_NUM_STANDARD = len(vars(logging.makeLogRecord({})))
_STANDARD = frozenset({"message", "asctime", "exc_text", "color_message"})


def new_request_id() -> str:
    """A new id of 32 hexadecimal digits; not a secret, so not worth the system call that secrets need."""
    return f"{random.getrandbits(128):032x}"


class Event(logging.LogRecord):
    """A record that knows nothing of where it was logged, which takes a fifth of the time to make.

    Args:
        logger: Name of the logger.
        level: Level of the event.
        event: What happened.
        fields: The fields of its line.
    """

    args = exc_info = exc_text = stack_info = None
    pathname = filename = module = funcName = ""
    lineno = 0

    def __init__(self, logger: str, level: int, event: str, fields: Mapping[str, object]) -> None:
        self.name = logger
        self.levelno, self.levelname = level, logging.getLevelName(level)
        self.msg = event
        self.fields = fields
        self.request_id = request_id.get()
        self.created = time.time()
        self.msecs = self.created % 1 * 1000


class JsonFormatter(logging.Formatter):
    """Writes level, logger, message and the fields of `extra`.

    Of an exception it only writes the type and the traceback: the message may hold what a user sent.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The JSON line of an event."""
        event: dict[str, object] = {
            "time": f"{_second(int(record.created))}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        fields: Mapping[str, object]
        if isinstance(record, Event):
            current, fields = record.request_id, record.fields
        else:
            current = request_id.get()
            fields = {key: value for key, value in _extra(record) if key not in _STANDARD}
        if current is not None:
            event["request_id"] = current
        event |= fields
        if record.exc_info and record.exc_info[1] is not None:
            event |= describe_fault(record.exc_info[1])
        return _to_json(event)


def _extra(record: logging.LogRecord) -> Iterator[tuple[str, object]]:
    """Returns the fields of a record beyond those that every record begins with."""
    return islice(vars(record).items(), _NUM_STANDARD, None)


def _to_json(event: dict[str, object]) -> str:
    try:
        line = to_json(event, fallback=str)
        # Escaping takes half as long again, and few lines need it.
        return (line if line.isascii() else to_json(event, ensure_ascii=True, fallback=str)).decode()
    except PydanticSerializationError:  # a file name that is not UTF-8
        return json.dumps(event, default=str)


@lru_cache(maxsize=1)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


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


class BufferedHandler(logging.StreamHandler[TextIO]):
    """Writes the lines of one iteration of the event loop together, and those of other threads at once."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._waiting: list[Event | str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, on the event loop at the end of the iteration."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            super().emit(record)
            return
        if not self._waiting:
            loop.call_soon(self.flush)
        try:
            # An event does not change, and many lines in a row are formatted in less time.
            self._waiting.append(record if isinstance(record, Event) else self.format(record))
        except Exception:  # as StreamHandler.emit
            self.handleError(record)

    def flush(self) -> None:
        """Write what waits."""
        self.acquire()
        try:
            waiting, self._waiting = self._waiting, []
            lines = [each if isinstance(each, str) else self.format(each) for each in waiting]
            self.stream.write("".join(f"{line}\n" for line in lines))
            super().flush()
        except Exception:
            # The event loop would log an error that passes, and so call this again without end.
            self.handleError(logging.makeLogRecord({"msg": f"{len(waiting)} lines of the log"}))
        finally:
            self.release()


def set_up_logs(level: str) -> None:
    """Write all events from this level up to standard error, uvicorn's included."""
    handler = BufferedHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    # No line shows these, so they need not be looked up (https://docs.python.org/3/howto/logging.html#optimization).
    logging._srcfile = ""
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # uvicorn logs each stage of start and shutdown, which our own events cover in fewer lines.
    logging.getLogger("uvicorn.error").setLevel(max(logging.WARNING, logging.getLogger().level))
