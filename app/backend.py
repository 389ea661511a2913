"""⑤ What decodes token ids, as the service sees it, and loading it until it may serve.

No torch here; tests use a double.
"""

import dataclasses
from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from model.checkpoint.card import ModelCard
from model.checkpoint.self_test import SelfTestSentence, require_self_test
from model.decode_request import DecodeRequest
from model.decoding.runner import Progress
from model.decoding.sentence import Sentence
from model.errors import CheckpointError, TranslationError
from model.text.tokenizer import Tokenizer

# What a checkpoint without self-test sentences translates first, and the most tokens of that translation.
_TRIAL_TEXT: Final = "Congratulations, everything is ready."
_MAX_TRIAL_TOKENS: Final = 16


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
        """Returns whether this sentence fits next to those that were added; an idle engine takes any."""

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

    def step(self, *, max_steps: int) -> Progress:
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

    def close(self) -> None:
        """Free its memory; nothing may use it any more."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadedModel:
    """A checkpoint in memory.

    Attributes:
        tokenizer: The checkpoint's tokenizer; thread-safe.
        engines: One for each worker that decodes with the checkpoint, at least one.
        precision: The precision of its arithmetic, such as `float32`.
        memory_bytes: Memory that it occupies.
        seconds: Time to load it.
    """

    tokenizer: Tokenizer
    engines: tuple[Engine, ...]
    precision: str
    memory_bytes: int
    seconds: float

    def close(self) -> None:
        """Free the memory of the engines; nothing may use them any more."""
        for engine in self.engines:
            engine.close()


@dataclass(kw_only=True, eq=False)
class Model:
    """A checkpoint that requests are sent to, in memory or not.

    Only the registry of models changes it; `tokenizer` and `engine` are for requests that hold a lease.

    Attributes:
        card: Name, version, language pairs, limits and decoding defaults.
        checksum: SHA-256 of the whole checkpoint.
        device: The device that it runs on, such as `cpu` or `cuda:0`.
        precision: The precision of its arithmetic; the expected one before it was loaded.
        parameters: Number of trained values.
        memory_bytes: Memory that it occupies when it is loaded; an estimate before it was loaded.
        folder: Where its files are.
        self_test: Sentences whose translation is known; older checkpoints have none.
        is_pinned: Whether it is always in memory.
        loaded: What it is in memory; None if it is not.
    """

    card: ModelCard
    checksum: str
    device: str
    precision: str
    parameters: int
    memory_bytes: int
    folder: Path = field(default_factory=Path)
    self_test: tuple[SelfTestSentence, ...] = ()
    is_pinned: bool = False
    loaded: LoadedModel | None = None

    @property
    def version(self) -> str:
        """The version on the card with the beginning of the checksum, which differs between checkpoints."""
        return f"{self.card.version}+{self.checksum[:8]}"

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the loaded checkpoint; thread-safe."""
        return self._in_memory.tokenizer

    def engine(self, worker: int) -> Engine | None:
        """Returns a worker's engine, always the same while the model is loaded; None if it has none."""
        engines = self._in_memory.engines
        return engines[worker] if worker < len(engines) else None

    @property
    def _in_memory(self) -> LoadedModel:
        if self.loaded is None:
            raise RuntimeError(f"model {self.card.name} is used without a lease")
        return self.loaded


class Backend(Protocol):
    """Lists and loads checkpoints. Its methods block and are thread-safe."""

    @property
    def workers(self) -> int:
        """Number of threads that run engines, at least 1."""

    def list_models(self) -> Sequence[Model]:
        """Returns the checkpoints, none of them loaded, the preferred one of a language pair first.

        Only descriptions are read, so that listing a hundred takes well under a second.

        Raises:
            TranslationError: If a checkpoint is incomplete or its description invalid.
        """

    def load(self, model: Model) -> LoadedModel:
        """Verify all files of a listed checkpoint and load it.

        Raises:
            TranslationError: If it is damaged, has changed since it was listed, or cannot be used here.
        """

    def verify(self, model: Model) -> None:
        """Verify all files of a loaded checkpoint again.

        Raises:
            TranslationError: If one is damaged.
        """


class Leases(Protocol):
    """Hands out models to requests; for the event loop only."""

    def lease(self, models: Collection[Model], deadline: float) -> AbstractAsyncContextManager[None]:
        """Keep models in memory for as long as the block lasts, and load those that are not there.

        A request that waits for one model must not hold a lease on another: it asks for all at once.

        Raises:
            DeadlinePassedError: If the deadline, seconds of the monotonic clock, came first.
            ModelUnavailableError: If one of them cannot be loaded now.
            TextTooLongError: If all of them together never fit into memory.
        """


def load_verified(backend: Backend, model: Model) -> LoadedModel:
    """Load a model, and let each of its engines translate; blocks.

    The translations of self-test sentences must be those of when the checkpoint was written.

    Raises:
        TranslationError: If it cannot be loaded.
        CheckpointError: If an engine cannot translate, or translates otherwise; the checkpoint is named.
    """
    loaded = backend.load(model)
    try:
        for engine in loaded.engines:
            _try_out(model, loaded.tokenizer, engine)
    except Exception as error:  # whatever it is: close the engines, then raise it again
        loaded.close()
        if isinstance(error, TranslationError):
            raise CheckpointError(f"checkpoint {model.card.name} cannot be served: {error}") from error
        raise
    return loaded


def _try_out(model: Model, tokenizer: Tokenizer, engine: Engine) -> None:
    if not model.self_test:
        _decode(engine, [_trial_request(model, tokenizer)], tokenizer)
        return
    translations = _decode(engine, [each.request(tokenizer) for each in model.self_test], tokenizer)
    require_self_test(model.self_test, translations)


def _trial_request(model: Model, tokenizer: Tokenizer) -> DecodeRequest:
    card = model.card
    source, target = card.pairs[0]
    ids = tokenizer.encode(_TRIAL_TEXT, source_language=source, target_language=target)
    length = min(_MAX_TRIAL_TOKENS, card.max_target_length)
    options = dataclasses.replace(card.decoding, max_length=length, min_length=0, min_length_ratio=0.0)
    start_ids = tokenizer.target_prefix(source, target)
    return DecodeRequest(tuple(ids[-card.max_source_length :]), options, start_ids=start_ids)


def _decode(engine: Engine, requests: Sequence[DecodeRequest], tokenizer: Tokenizer) -> list[str]:
    sentences = [engine.add(request) for request in requests]
    texts: dict[Sentence, str] = {}
    while not engine.is_idle:
        for sentence, result in engine.step(max_steps=1).finished:
            if isinstance(result, TranslationError):
                raise result
            texts[sentence] = tokenizer.decode(result[0].token_ids)
    return [texts[sentence] for sentence in sentences]
