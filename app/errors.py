"""What the service itself refuses, whatever the text; HTTP statuses are given to them in `app/http/errors`.

ServiceError
├── UnavailableError         not now, but soon: carries when to come back
│   ├── NotReadyError        the checkpoint is still loading
│   ├── DrainingError        the process is about to end
│   ├── EngineStuckError     an engine has work and makes no step
│   ├── OverloadedError      more requests are in progress than are admitted
│   ├── QueueFullError       more work is waiting than can be promised an answer
│   ├── OutOfMemoryError     the device has no memory for a sentence, even alone
│   └── KeysUnreadableError  the file of API keys cannot be used just now
├── DeadlinePassedError      the answer would have come too late; the work was cancelled
├── ClientGoneError          nobody is waiting for the answer any more
├── AccessDeniedError
│   ├── KeyMissingError
│   └── KeyInvalidError
└── RateExceededError        this client asked too often
"""


class ServiceError(Exception):
    """Root of the tree; `str(error)` is one line that a person can act on."""


class UnavailableError(ServiceError):
    """Cannot be served now.

    Args:
        message: The whole sentence.
        retry_after: Seconds after which trying again makes sense, at least 1.
    """

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NotReadyError(UnavailableError):
    """The checkpoint is still loading."""

    def __init__(self) -> None:
        super().__init__("the model is still loading", retry_after=2)


class DrainingError(UnavailableError):
    """The process is about to end and takes no new work."""

    def __init__(self) -> None:
        super().__init__("the service is shutting down", retry_after=5)


class EngineStuckError(UnavailableError):
    """An engine has work and makes no step; only a new process may help."""

    def __init__(self) -> None:
        super().__init__("an engine has work but makes no step", retry_after=5)


class OverloadedError(UnavailableError):
    """As many requests are being served as MAX_REQUESTS allows, altogether or for one client's share."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"too many requests are being served; try again in {retry_after} s", retry_after)


class QueueFullError(UnavailableError):
    """More work is waiting than MAX_QUEUED_TOKENS allows, altogether or for one client's share."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"the queue is full; try again in {retry_after} s", retry_after)


class OutOfMemoryError(UnavailableError):
    """The device has no memory for a sentence, even alone."""

    def __init__(self) -> None:
        super().__init__("there is not enough memory for this just now; try again, or a shorter text", 5)


class KeysUnreadableError(UnavailableError):
    """The file of API keys is missing or broken, so nobody is let in."""

    def __init__(self) -> None:
        super().__init__("API keys cannot be checked just now", retry_after=5)


class DeadlinePassedError(ServiceError):
    """The answer would have come too late; the work was cancelled."""

    def __init__(self) -> None:
        super().__init__("the deadline of this request passed before its translation was finished")


class ClientGoneError(ServiceError):
    """The client closed its connection before its answer was there."""

    def __init__(self) -> None:
        super().__init__("the client closed the connection")


class AccessDeniedError(ServiceError):
    """The caller may not use this path."""


class KeyMissingError(AccessDeniedError):
    """No API key came with the request.

    Args:
        ways: How one is sent.
    """

    def __init__(
        self, ways: str = "`Authorization: Bearer KEY`, or `api_key` where LibreTranslate has it"
    ) -> None:
        super().__init__(f"an API key is required: {ways}")


class KeyInvalidError(AccessDeniedError):
    """An API key came with the request, but not one of ours."""

    def __init__(self) -> None:
        super().__init__("this API key is not valid")


class RateExceededError(ServiceError):
    """This client asked more often than RATE_LIMIT allows.

    Args:
        retry_after: Seconds after which its next request will be served, at least 1.
    """

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"too many requests; try again in {retry_after} s")
        self.retry_after = retry_after
