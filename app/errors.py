"""The errors of the service; `app/http/errors.py` gives them their HTTP statuses.

ServiceError
├── UnavailableError         temporarily unavailable; has `retry_after`
│   ├── NotReadyError        the checkpoints are still loading
│   ├── DrainingError        the process is shutting down
│   ├── EngineStuckError     an engine has work and makes no step
│   ├── OverloadedError      more requests are in progress than are admitted
│   ├── QueueFullError       as much work is queued as the limit allows
│   ├── ModelUnavailableError  a model cannot be loaded now
│   ├── OutOfMemoryError     the device has no memory for a sentence, even by itself
│   └── KeysUnreadableError  the file of API keys cannot be used
├── DeadlinePassedError      the deadline of the request passed; its work was cancelled
├── ClientGoneError          the client closed the connection
├── AccessDeniedError
│   ├── KeyMissingError
│   └── KeyInvalidError
└── RateExceededError        the client is over its rate
"""

import math


class ServiceError(Exception):
    """Root of the tree; `str(error)` is one line that tells a person what to do. It can be pickled."""

    def __reduce__(self) -> tuple[object, ...]:
        # Without the constructor, whose arguments are not kept.
        return type(self).__new__, (type(self), *self.args), vars(self)


class UnavailableError(ServiceError):
    """The request cannot be served now.

    Args:
        message: The whole sentence.
        retry_after: Seconds after which trying again makes sense, at least 1.
    """

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NotReadyError(UnavailableError):
    """The checkpoints are still loading."""

    def __init__(self) -> None:
        super().__init__("the model is still loading", retry_after=2)


class DrainingError(UnavailableError):
    """The process is shutting down and takes no new work."""

    def __init__(self) -> None:
        super().__init__("the service is shutting down", retry_after=5)


class EngineStuckError(UnavailableError):
    """An engine has work and makes no step; only a new process may help."""

    def __init__(self) -> None:
        super().__init__("an engine has work but makes no step", retry_after=5)


class OverloadedError(UnavailableError):
    """The requests in progress reach MAX_REQUESTS or MAX_HELD_BYTES, in total or for one client."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"too many requests are being served; try again in {retry_after} s", retry_after)


class QueueFullError(UnavailableError):
    """The queued tokens reach MAX_QUEUED_TOKENS, in total or for one client."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"the queue is full; try again in {retry_after} s", retry_after)


class OutOfMemoryError(UnavailableError):
    """The device has no memory for a sentence, even by itself."""

    def __init__(self) -> None:
        super().__init__("there is not enough memory for this just now; try again, or a shorter text", 5)


class ModelUnavailableError(UnavailableError):
    """A model cannot be loaded; the log says why.

    Args:
        name: Name of the model.
        seconds: When it will be tried again.
    """

    def __init__(self, name: str, seconds: float) -> None:
        retry_after = max(math.ceil(seconds), 1)
        super().__init__(f"model {name} cannot be loaded now; try again in {retry_after} s", retry_after)


class KeysUnreadableError(UnavailableError):
    """The file of API keys is missing or damaged, so no request is admitted."""

    def __init__(self) -> None:
        super().__init__("API keys cannot be checked just now", retry_after=5)


class DeadlinePassedError(ServiceError):
    """The deadline of the request passed; its work was cancelled."""

    def __init__(self) -> None:
        super().__init__("the deadline of this request passed before its translation was finished")


class ClientGoneError(ServiceError):
    """The client closed its connection before it was answered."""

    def __init__(self) -> None:
        super().__init__("the client closed the connection")


class AccessDeniedError(ServiceError):
    """The client may not use this path."""


class KeyMissingError(AccessDeniedError):
    """No API key came with the request.

    Args:
        ways: The ways to send one.
    """

    def __init__(
        self, ways: str = "`Authorization: Bearer KEY`, or `api_key` where LibreTranslate has it"
    ) -> None:
        super().__init__(f"an API key is required: {ways}")


class KeyInvalidError(AccessDeniedError):
    """The request has an API key that is not valid."""

    def __init__(self) -> None:
        super().__init__("this API key is not valid")


class RateExceededError(ServiceError):
    """The client sent more requests than RATE_LIMIT allows.

    Args:
        retry_after: Seconds after which its next request will be served, at least 1.
    """

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"too many requests; try again in {retry_after} s")
        self.retry_after = retry_after
