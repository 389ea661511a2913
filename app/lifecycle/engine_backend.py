"""⑤ The real backend: checkpoints, and their engines. Only the lifespan imports it."""

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
from model.checkpoint.self_test import GoldenSentence, golden_sentences
from model.decoding.device import accelerator_memory, available_cores
from model.decoding.engine import DecodingEngine
from model.decoding.factory import EngineFactory, engine_factory
from model.errors import ConfigError

logger = logging.getLogger(__name__)

_STATE_BYTES: Final = {"cpu": 2**28, "cuda": 2**32}
# Natively a token takes as long to encode alone as in any company; in PyTorch company makes it cheaper.
_NATIVE_ENCODE_TOKENS: Final = 256
_TORCH_ENCODE_TOKENS: Final = 2048


@dataclass(frozen=True)
class _Loaded:
    model: LoadedModel
    factory: EngineFactory

    @property
    def name(self) -> str:
        return self.model.card.name

    def max_positions(self, state_bytes: int, num_checkpoints: int) -> int:
        """Entries of decoder state that one engine may have.

        Args:
            state_bytes: What those of all checkpoints may occupy; 0 leaves it to the device.
            num_checkpoints: How many share that.

        Raises:
            ConfigError: If not even one sentence would find room.
        """
        needed = _most_positions(self.model.card)
        entry = self.factory.position_bytes
        if state_bytes == 0:
            return max(needed, _STATE_BYTES[self.factory.device.partition(":")[0]] // entry)
        share = state_bytes // num_checkpoints
        if share < needed * entry:
            requirement = f"at least {needed * entry} for each checkpoint, as {self.name} needs"
            raise ConfigError("max_state_bytes", requirement, state_bytes)
        return share // entry


class EngineBackend:
    """Several checkpoints in this process; their workers share the weights.

    Args:
        loaded: The checkpoints, the preferred one of a language pair first.
        settings: How many workers, and how much each of them may hold.

    Attributes:
        workers: How many threads are to drive engines.

    Raises:
        ConfigError: If the decoder state has no room for one sentence.
    """

    def __init__(self, loaded: Sequence[_Loaded], settings: Settings) -> None:
        self.workers = settings.workers or _best_workers(loaded)
        self._loaded = tuple(loaded)
        self._models = tuple(each.model for each in loaded)
        self._engines = {
            (each.name, worker): _engine(each, settings, len(loaded))
            for each in loaded
            for worker in range(self.workers)
        }

    @classmethod
    def load(cls, settings: Settings, lender: "EngineBackend | None" = None) -> "EngineBackend":
        """Load the checkpoints that the settings name.

        Args:
            settings: See there.
            lender: Shares the weights of checkpoints that are the same still, and is not changed.

        Raises:
            CheckpointError: If a folder is not a whole, sound checkpoint.
            ConfigError: If a path holds no checkpoint, two have one name, one has no shortlist where one is
                asked for, or this machine cannot do what is asked.
        """
        known = {each.model.checksum: each for each in lender._loaded} if lender is not None else {}
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
        return accelerator_memory()

    def close(self) -> None:
        """Give back what the engines hold."""
        for engine in self._engines.values():
            engine.close()


def _load(folder: Path, settings: Settings, known: Mapping[str, _Loaded]) -> _Loaded:
    began = time.monotonic()
    checkpoint = load_checkpoint(folder)
    if checkpoint.checksum in known:
        lent = known[checkpoint.checksum]
        # The checksum is not of provenance.json, so what to verify it with may be new.
        seconds = time.monotonic() - began
        return replace(lent, model=replace(lent.model, golden=_golden(checkpoint), load_seconds=seconds))
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
        golden=_golden(checkpoint),
    )
    return _Loaded(model, factory)


def _golden(checkpoint: Checkpoint) -> tuple[GoldenSentence, ...]:
    golden = golden_sentences(checkpoint.provenance)
    if not golden:
        # It may still be a good one: one of an older release, or of languages that we have no text of.
        logger.info("no golden sentences to verify with", extra={"model": checkpoint.card.name})
    return golden


def _engine(loaded: _Loaded, settings: Settings, num_checkpoints: int) -> DecodingEngine:
    state_bytes = settings.max_state_bytes
    encode_tokens = _NATIVE_ENCODE_TOKENS if loaded.factory.is_native else _TORCH_ENCODE_TOKENS
    return loaded.factory.make(
        max_batch_tokens=settings.max_batch_tokens or None,
        max_encode_tokens=settings.max_encode_tokens or encode_tokens,
        max_positions=loaded.max_positions(state_bytes, num_checkpoints),
    )


def _best_workers(loaded: Iterable[_Loaded]) -> int:
    return available_cores() if all(each.factory.is_native for each in loaded) else 1


def _most_positions(card: ModelCard) -> int:
    """What one sentence may come to occupy if it is as long as the card permits."""
    return card.max_source_length + card.decoding.lanes * card.max_target_length
