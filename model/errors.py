"""Every error that Dragoman's core raises on purpose.

    TranslationError
    ├── ConfigError                  a setting or option that cannot work
    ├── InputError                   what the caller sent cannot be served
    │   ├── UnsupportedLanguageError
    │   │   └── ForeignTextError     a text in a language that was detected
    │   └── TextTooLongError
    ├── CheckpointError              a folder that is incomplete, corrupt or of another shape
    │   └── ReplacedCheckpointError  a folder that holds another checkpoint than it did
    ├── TokenizerError               a tokenizer that is missing, unreadable or contradicts itself
    ├── DecodingError                a sentence that could not be decoded
    │   └── NotFiniteError           the network's output is not a number
    ├── DeviceLostError              a GPU that only a new process can use
    ├── NativeError                  the native library is missing, or cannot compute this
    ├── MissingTorchError            PyTorch is not installed, and this needs it
    └── TrainingError
        ├── CorpusError              parallel text that cannot be read or is empty
        ├── DivergenceError          the loss is no longer a number
        └── LostProcessError         a process of distributed training ended

`str(error)` is one line that a person can act on.
"""

from collections.abc import Collection


class TranslationError(Exception):
    """Base class of every error that Dragoman raises on purpose; it can be pickled."""

    def __reduce__(self) -> tuple[object, ...]:
        # Without the constructor, whose arguments are not kept.
        return type(self).__new__, (type(self), *self.args), vars(self)


class ConfigError(TranslationError):
    """A setting or option that cannot work.

    Args:
        field: Name of the setting as users know it.
        requirement: What the value must be; completes "`field` must be …".
        value: The value.
        is_missing: Whether the user left the setting out; the message then does not say the value.
    """

    def __init__(self, field: str, requirement: str, value: object, *, is_missing: bool = False) -> None:
        found = "missing" if is_missing else f"{value!r} instead"
        super().__init__(f"`{field}` must be {requirement}, but is {found}")
        self.field = field
        self.requirement = requirement
        self.value = value
        self.is_missing = is_missing

    def renamed(self, field: str) -> "ConfigError":
        """The error under another name of the setting."""
        return ConfigError(field, self.requirement, self.value, is_missing=self.is_missing)


class InputError(TranslationError):
    """A request or an argument that cannot be served.

    Args:
        message: The whole message.
        field: Field of the request, e.g. `q[3]`; None if the error is not about one field.
    """

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class UnsupportedLanguageError(InputError):
    """A language or a pair of languages that no loaded checkpoint translates."""

    def __init__(self, field: str, code: str, allowed: Collection[str]) -> None:
        choices = ", ".join(sorted(allowed)) or "none"
        super().__init__(f"`{field}` must be one of {choices}, but is {code!r} instead", field)
        self.code = code
        self.allowed = tuple(sorted(allowed))


class ForeignTextError(UnsupportedLanguageError):
    """A text whose detected language no loaded checkpoint translates."""

    def __init__(self, field: str, code: str, allowed: Collection[str]) -> None:
        super().__init__(field, code, allowed)
        self.args = (f"`{field}` seems to be in {code!r}, but must be in one of {', '.join(self.allowed)}",)


class TextTooLongError(InputError):
    """A text over a limit; the message names the limit and both figures."""

    def __init__(self, field: str, limit_name: str, limit: int, value: int) -> None:
        super().__init__(f"`{field}` is over the limit {limit_name}: {value}, at most {limit}", field)
        self.limit_name = limit_name
        self.limit = limit
        self.value = value


class CheckpointError(TranslationError):
    """A checkpoint folder that is incomplete, corrupt, of another shape or holds NaN.

    Args:
        message: The whole message; lines that it quotes from other packages become one.
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(map(str.strip, message.splitlines())))


class ReplacedCheckpointError(CheckpointError):
    """A checkpoint folder that was replaced since it was listed."""


class TokenizerError(TranslationError):
    """A tokenizer that is missing, unreadable or contradicts its settings."""


class DecodingError(TranslationError):
    """A sentence that could not be decoded; other sentences of its batch are not affected."""


class NotFiniteError(DecodingError):
    """The network's output for a sentence is not a number."""

    def __init__(self) -> None:
        super().__init__("the network's output is not a number")


class DeviceLostError(TranslationError):
    """A GPU answers no more in this process; only a new process can use it."""


class NativeError(TranslationError):
    """The native library is missing, or cannot compute this; PyTorch can."""


class MissingTorchError(TranslationError):
    """PyTorch is not installed, and something needs it.

    Args:
        need: What needs it, a noun phrase.
    """

    def __init__(self, need: str) -> None:
        super().__init__(
            f"{need} needs PyTorch, which is not installed here: install the extra `torch` "
            "(`pip install --editable '.[torch]'`), or use an image built with EXTRAS=otel,torch"
        )


class TrainingError(TranslationError):
    """Training cannot start or continue."""


class CorpusError(TrainingError):
    """Parallel text that cannot be read, is not aligned or is empty after cleaning."""


class DivergenceError(TrainingError):
    """The loss or a gradient is no longer a finite number."""


class LostProcessError(TrainingError):
    """A process of distributed training ended."""
