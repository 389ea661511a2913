"""⑤ seen from the service: what decodes token ids. No torch here; tests put a double in its place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from model.card import ModelCard
from model.decoding.observer import Observer
from model.errors import TranslationError
from model.request import DecodeRequest, Hypothesis
from model.text.tokenizer import Tokenizer

Outcome = list[Hypothesis] | TranslationError


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A checkpoint that is ready to decode.

    Attributes:
        card: Name, version, language pairs, limits and decoding defaults.
        tokenizer: Of this checkpoint; thread-safe.
        checksum: SHA-256 of its weights.
        device: Where it runs, e.g. `cpu` or `cuda:0`.
        precision: Of its arithmetic, e.g. `float32`.
        parameters: Number of trained values.
        load_seconds: How long loading took.
    """

    card: ModelCard
    tokenizer: Tokenizer
    checksum: str
    device: str
    precision: str
    parameters: int
    load_seconds: float


class Backend(Protocol):
    """What decodes. Only one thread, the worker's, ever calls `decode`."""

    def models(self) -> Sequence[LoadedModel]:
        """The loaded checkpoints, the preferred one of a language pair first."""

    def decode(self, model: str, requests: Sequence[DecodeRequest], observer: Observer) -> list[Outcome]:
        """Decode a batch; blocks.

        Args:
            model: Name of a loaded checkpoint.
            requests: Sentences, in any order and with any options.
            observer: Is told how long the parts took, on the calling thread.

        Returns:
            For each sentence its hypotheses, best first, or why it alone failed.
        """

    def memory(self) -> Mapping[str, int]:
        """Bytes of accelerator memory by kind (`allocated`, `reserved`); empty on a CPU."""

    def close(self) -> None:
        """Give back what the engine holds."""
