"""⑤ What decodes token ids, as the service sees it. No torch here; tests use a double."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from model.checkpoint.card import ModelCard
from model.checkpoint.self_test import SelfTestSentence
from model.decoding.runner import Observer, Progress
from model.decoding.sentence import Sentence
from model.request import DecodeRequest
from model.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A checkpoint that is ready to decode.

    Attributes:
        card: Name, version, language pairs, limits and decoding defaults.
        tokenizer: The checkpoint's tokenizer; thread-safe.
        checksum: SHA-256 of the whole checkpoint.
        device: The device that it runs on, such as `cpu` or `cuda:0`.
        precision: The precision of its arithmetic, such as `float32`.
        parameters: Number of trained values.
        load_seconds: Time to load it.
        self_test: Sentences whose translation is known; older checkpoints have none.
    """

    card: ModelCard
    tokenizer: Tokenizer
    checksum: str
    device: str
    precision: str
    parameters: int
    load_seconds: float
    self_test: tuple[SelfTestSentence, ...] = ()

    @property
    def version(self) -> str:
        """The version on the card with the beginning of the checksum, which differs between checkpoints."""
        return f"{self.card.version}+{self.checksum[:8]}"


class Engine(Protocol):
    """The running batch of one checkpoint, decoded step by step; `DecodingEngine` is an implementation.

    Only one thread uses it, except that any thread may call `interrupt`.
    """

    @property
    def is_idle(self) -> bool:
        """Whether every sentence that was added has finished or was cancelled."""

    @property
    def running(self) -> int:
        """Sentences in the running batch; a sentence that was added joins it in a later step."""

    def fits(self, request: DecodeRequest) -> bool:
        """Whether there is capacity beside the sentences that were added; an idle engine has it for any."""

    def add(self, request: DecodeRequest) -> Sentence:
        """Add a sentence; one of the next steps encodes it, in order of arrival.

        Raises:
            InputError: If the engine can never decode it.
        """

    def cancel(self, sentence: Sentence) -> None:
        """Remove a sentence before the next step; nothing happens if it has finished.

        Raises:
            Exception: Any. The engine has then removed all sentences and can be used again.
        """

    def step(self, observer: Observer, *, max_steps: int) -> Progress:
        """Encode the sentences that were added, then decode at least one step; blocks.

        Returns after the step in which a sentence finished, `interrupt` was called, or `max_steps` were
        done. An interrupt between two calls ends the next call after one step.

        Raises:
            Exception: Any. The engine has then removed all sentences and can be used again.
        """

    def interrupt(self) -> None:
        """Make the running call of `step` return soon."""

    def stable_prefix(self, sentence: Sentence) -> tuple[int, ...]:
        """Returns the target tokens with which every possible result of a running sentence begins."""


class Backend(Protocol):
    """The loaded checkpoints, with an engine of each checkpoint for every worker."""

    @property
    def workers(self) -> int:
        """Number of threads that run engines, at least 1."""

    def models(self) -> Sequence[LoadedModel]:
        """The loaded checkpoints, the preferred one of a language pair first."""

    def engine(self, model: str, worker: int) -> Engine:
        """Returns a worker's engine of a checkpoint, always the same one.

        Args:
            model: Name of a loaded checkpoint.
            worker: Below `workers`.
        """

    def memory(self) -> Mapping[str, int]:
        """Returns bytes of GPU memory by kind (`allocated`, `reserved`); empty on a CPU."""

    def close(self) -> None:
        """Free the resources of the engines."""
