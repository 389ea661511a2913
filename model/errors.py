"""Every error that Dragoman's core raises on purpose.

    TranslationError
    ├── ConfigError                  a setting or option that cannot work
    ├── InputError                   what the caller sent cannot be served
    │   ├── UnsupportedLanguageError
    │   └── TextTooLongError
    ├── CheckpointError              a folder that is incomplete, corrupt or of another shape
    ├── TokenizerError               a tokenizer that is missing, foreign or contradicts itself
    ├── DecodingError                a sentence that could not be decoded
    │   └── NotFiniteError           the network produced something that is not a number
    ├── NativeError                  the native library is not there, or cannot do what was asked
    └── TrainingError
        ├── CorpusError              parallel text that cannot be read or is empty
        ├── DivergenceError          the loss is no longer a number
        └── LostProcessError         one of several processes that train together is gone

`str(error)` is one line that a person can act on.
"""

from collections.abc import Collection


class TranslationError(Exception):
    """Root of the tree; catch it to catch everything Dragoman raises on purpose."""


class ConfigError(TranslationError):
    """A setting or option that cannot work.

    Args:
        field: Name of the setting as its user knows it.
        requirement: What it must be, so that "`field` must be <requirement>" reads well.
        value: What it is instead.
    """

    def __init__(self, field: str, requirement: str, value: object) -> None:
        super().__init__(f"`{field}` must be {requirement}, but is {value!r} instead")
        self.field = field
        self.requirement = requirement
        self.value = value


class InputError(TranslationError):
    """What the caller sent cannot be served.

    Args:
        message: The whole sentence.
        field: Where in the request, e.g. `q[3]`; None if it is not about one field.
    """

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class UnsupportedLanguageError(InputError):
    """A language, or a pair of languages, that no loaded checkpoint translates."""

    def __init__(self, field: str, code: str, allowed: Collection[str]) -> None:
        choices = ", ".join(sorted(allowed)) or "none"
        super().__init__(f"`{field}` must be one of {choices}, but is {code!r} instead", field)
        self.code = code
        self.allowed = tuple(sorted(allowed))


class TextTooLongError(InputError):
    """A text over a limit; the message names the limit and both figures."""

    def __init__(self, field: str, limit_name: str, limit: int, value: int) -> None:
        super().__init__(f"`{field}` is over the limit {limit_name}: {value}, at most {limit}", field)
        self.limit_name = limit_name
        self.limit = limit
        self.value = value


class CheckpointError(TranslationError):
    """A checkpoint folder that is incomplete, corrupt, of another shape or holds NaN."""


class TokenizerError(TranslationError):
    """A tokenizer that is missing, foreign or contradicts its settings."""


class DecodingError(TranslationError):
    """A sentence that could not be decoded; those beside it were."""


class NotFiniteError(DecodingError):
    """The network produced something that is not a number for this sentence."""

    def __init__(self) -> None:
        super().__init__("the network's output is not a number")


class NativeError(TranslationError):
    """The native library is not there, or cannot do what was asked; the torch path can."""


class TrainingError(TranslationError):
    """Training cannot start or go on."""


class CorpusError(TrainingError):
    """Parallel text that cannot be read, does not align or is empty after cleaning."""


class DivergenceError(TrainingError):
    """The loss or a gradient is no longer a finite number."""


class LostProcessError(TrainingError):
    """One of several processes that train together is gone."""
