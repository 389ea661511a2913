"""⑤ The backend that loads checkpoints and makes their engines. Only the lifespan imports it."""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from app.backend import Engine, LoadedModel
from app.settings import Settings
from model.checkpoint.card import ModelCard
from model.checkpoint.folder import Checkpoint, load_checkpoint
from model.checkpoint.paths import served_folders
from model.checkpoint.self_test import SelfTestSentence, self_test_sentences
from model.decoding.device import available_cores, gpu_memory
from model.decoding.engine import DecodingEngine
from model.decoding.factory import EngineFactory, engine_factory
from model.errors import ConfigError

logger = logging.getLogger(__name__)

_STATE_BYTES: Final = {"cpu": 2**28, "cuda": 2**32}
# In the native library, encoding a token costs the same in any batch; in PyTorch, large batches are cheaper.
_NATIVE_ENCODE_TOKENS: Final = 256
_TORCH_ENCODE_TOKENS: Final = 2048


@dataclass(frozen=True)
class _LoadedCheckpoint:
    model: LoadedModel
    factory: EngineFactory

    @property
    def name(self) -> str:
        return self.model.card.name

    def max_positions(self, state_bytes: int, num_checkpoints: int) -> int:
        """Positions of decoder state that one engine may have.

        Args:
            state_bytes: Memory for the decoder state of all checkpoints; 0 leaves it to the device.
            num_checkpoints: How many checkpoints share that.

        Raises:
            ConfigError: If not even one sentence fits.
        """
        needed = _most_positions(self.model.card)
        position_bytes = self.factory.position_bytes
        if state_bytes == 0:
            return max(needed, _STATE_BYTES[self.factory.device.partition(":")[0]] // position_bytes)
        share = state_bytes // num_checkpoints
        if share < needed * position_bytes:
            requirement = f"at least {needed * position_bytes} for each checkpoint, as {self.name} needs"
            raise ConfigError("max_state_bytes", requirement, state_bytes)
        return share // position_bytes


class EngineBackend:
    """Checkpoints in this process; all workers share the weights.

    Args:
        loaded: The checkpoints, the preferred one of a language pair first.
        settings: The number of workers, and the limits of their engines.

    Attributes:
        workers: How many threads are to step engines.

    Raises:
        ConfigError: If one sentence does not fit into the decoder state.
    """

    def __init__(self, loaded: Sequence[_LoadedCheckpoint], settings: Settings) -> None:
        self.workers = settings.workers or _best_workers(loaded)
        self._loaded = tuple(loaded)
        self._models = tuple(each.model for each in loaded)
        self._engines = {
            (each.name, worker): _engine(each, settings, len(loaded))
            for each in loaded
            for worker in range(self.workers)
        }

    @classmethod
    def load(cls, settings: Settings, previous: "EngineBackend | None" = None) -> "EngineBackend":
        """Load the checkpoints that the settings name.

        Args:
            settings: All settings.
            previous: Shares the weights of checkpoints that have not changed; itself unchanged.

        Raises:
            CheckpointError: If a folder is not a complete, sound checkpoint.
            ConfigError: If a path holds no checkpoint, if two checkpoints have the same name, if a required
                shortlist is missing, or if this machine does not support the settings.
        """
        known = {each.model.checksum: each for each in previous._loaded} if previous is not None else {}
        loaded = [_load(folder, settings, known) for folder in served_folders(settings.checkpoint)]
        names = [each.name for each in loaded]
        if len(set(names)) < len(names):
            raise ConfigError("checkpoint", "checkpoints of different names", ", ".join(sorted(names)))
        return cls(loaded, settings)

    def models(self) -> Sequence[LoadedModel]:
        """The loaded checkpoints, the preferred one of a language pair first."""
        return self._models

    def engine(self, model: str, worker: int) -> Engine:
        """A worker's engine of a checkpoint."""
        return self._engines[model, worker]

    def memory(self) -> Mapping[str, int]:
        """Bytes of accelerator memory by kind; empty on a CPU."""
        return gpu_memory()

    def close(self) -> None:
        """Free the memory of the engines."""
        for engine in self._engines.values():
            engine.close()


def _load(folder: Path, settings: Settings, known: Mapping[str, _LoadedCheckpoint]) -> _LoadedCheckpoint:
    began = time.monotonic()
    checkpoint = load_checkpoint(folder)
    if checkpoint.checksum in known:
        same = known[checkpoint.checksum]
        # The checksum does not cover provenance.json, so the self-test sentences may be new.
        seconds = time.monotonic() - began
        return replace(
            same, model=replace(same.model, self_test=_self_test(checkpoint), load_seconds=seconds)
        )
    factory = engine_factory(
        checkpoint,
        device=settings.device,
        precision=settings.precision,
        shortlist=settings.shortlist == "on",
    )
    model = LoadedModel(
        card=checkpoint.card,
        tokenizer=checkpoint.tokenizer,
        checksum=checkpoint.checksum,
        device=factory.device,
        precision=factory.precision,
        parameters=checkpoint.num_parameters,
        load_seconds=time.monotonic() - began,
        self_test=_self_test(checkpoint),
    )
    return _LoadedCheckpoint(model, factory)


def _self_test(checkpoint: Checkpoint) -> tuple[SelfTestSentence, ...]:
    sentences = self_test_sentences(checkpoint.provenance)
    if not sentences:
        # It may still be sound: from an older release, or of languages without self-test sentences.
        logger.info("no self-test sentences to verify with", extra={"model": checkpoint.card.name})
    return sentences


def _engine(loaded: _LoadedCheckpoint, settings: Settings, num_checkpoints: int) -> DecodingEngine:
    state_bytes = settings.max_state_bytes
    encode_tokens = _NATIVE_ENCODE_TOKENS if loaded.factory.is_native else _TORCH_ENCODE_TOKENS
    return loaded.factory.make(
        max_batch_tokens=settings.max_batch_tokens or None,
        max_encode_tokens=settings.max_encode_tokens or encode_tokens,
        max_positions=loaded.max_positions(state_bytes, num_checkpoints),
    )


def _best_workers(loaded: Iterable[_LoadedCheckpoint]) -> int:
    return available_cores() if all(each.factory.is_native for each in loaded) else 1


def _most_positions(card: ModelCard) -> int:
    """Positions that one sentence occupies if it is as long as the card permits."""
    return card.max_source_length + card.decoding.rows * card.max_target_length
