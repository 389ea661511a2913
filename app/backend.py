"""⑤ seen from the service: what decodes token ids. No torch here; tests put a double in its place."""

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
        tokenizer: Of this checkpoint; thread-safe.
        checksum: SHA-256 of the whole checkpoint.
        device: Where it runs, e.g. `cpu` or `cuda:0`.
        precision: Of its arithmetic, e.g. `float32`.
        parameters: Number of trained values.
        load_seconds: How long loading took.
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
        """Which checkpoint this is: two that differ have different versions, whatever their card says."""
        return f"{self.card.version}+{self.checksum[:8]}"


class Engine(Protocol):
    """One running batch of one checkpoint, moved on step by step; `DecodingEngine` is one.

    One thread drives it; only `interrupt` may be called from others.
    """

    @property
    def is_idle(self) -> bool:
        """Whether nothing was added that has not finished and was not cancelled."""

    @property
    def running(self) -> int:
        """Sentences in the running batch; one that was added joins it in a later step."""

    def fits(self, request: DecodeRequest) -> bool:
        """Whether there is room beside what was added; an idle engine has room for anything."""

    def add(self, request: DecodeRequest) -> Sentence:
        """Take a sentence; one of the next steps encodes it, in order of arrival.

        Raises:
            InputError: If the engine can never decode it.
        """

    def cancel(self, sentence: Sentence) -> None:
        """Forget a sentence before the next step; nothing happens if it has finished.

        Raises:
            Exception: Anything. The engine has then forgotten all sentences and can be used again.
        """

    def step(self, observer: Observer, *, max_steps: int) -> Progress:
        """Encode what was added, then move the running batch on by at least one token; blocks.

        Returns after the step in which a sentence finished, or somebody interrupted, or the last
        of `max_steps`. An interrupt between two calls ends the next one after a step.

        Raises:
            Exception: Anything. The engine has then forgotten all sentences and can be used again.
        """

    def interrupt(self) -> None:
        """Let the step that is going on return soon."""

    def stable_prefix(self, sentence: Sentence) -> tuple[int, ...]:
        """Target tokens that every result of a running sentence is sure to begin with."""


class Backend(Protocol):
    """The loaded checkpoints, and an engine of each for every worker."""

    @property
    def workers(self) -> int:
        """How many threads are to drive engines, at least 1."""

    def models(self) -> Sequence[LoadedModel]:
        """The loaded checkpoints, the preferred one of a language pair first."""

    def engine(self, model: str, worker: int) -> Engine:
        """A worker's engine of a checkpoint, always the same one.

        Args:
            model: Name of a loaded checkpoint.
            worker: Below `workers`.
        """

    def memory(self) -> Mapping[str, int]:
        """Bytes of accelerator memory by kind (`allocated`, `reserved`); empty on a CPU."""

    def close(self) -> None:
        """Give back what the engines hold."""
