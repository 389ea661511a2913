"""⑤ The backend that loads checkpoints and makes their engines. Only the lifespan imports it."""

import logging
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from app.backend import LoadedModel, Model
from app.settings import Settings
from model.checkpoint.card import ModelCard
from model.checkpoint.folder import list_checkpoint, load_checkpoint
from model.checkpoint.manifest import served_folders, verify_files
from model.checkpoint.self_test import self_test_sentences
from model.checkpoint.shortlist import SHORTLIST
from model.decoding.device import (
    Precision,
    available_cores,
    every_device,
    free_gpu_memory,
    resolve_device,
    resolve_precision,
)
from model.decoding.engine import DecodingEngine
from model.decoding.factory import MOST_GPU_KV_SLOTS, EngineFactory, engine_factory, gpu_state_bytes
from model.errors import ConfigError, NativeError, ReplacedCheckpointError
from model.native.binding import load_library
from model.native.shared_weights import SharedMemory, SharedWeights
from model.text.tokenizer import TOKENIZER_FILES, Tokenizer

logger = logging.getLogger(__name__)

_CPU_STATE_BYTES: Final = 2**28
# An engine lists its free slots; for a tiny network, _CPU_STATE_BYTES would allow millions of them.
_MOST_CPU_KV_SLOTS: Final = 2**17
# In the native library, encoding a token costs the same in any batch; in PyTorch, large batches are cheaper.
_NATIVE_ENCODE_TOKENS: Final = 256
_TORCH_ENCODE_TOKENS: Final = 2048
_GPU_ENCODE_TOKENS: Final = 8192
_SHORTLIST: Final = {"auto": None, "on": True, "off": False}
# With the padding, scales and sums of packed weights, as measured.
_PARAMETER_BYTES: Final = {"float32": 4.6, "bfloat16": 2.2, "float16": 2.2, "int8": 1.15}
# Memory of a tokenizer by the size of its files, and of the buffers of an engine, as measured.
_TOKENIZER_FACTOR: Final = 4
_ENGINE_BYTES: Final = 2**21


class EngineBackend:
    """Checkpoints in this process; all workers share the weights of each.

    Args:
        settings: The checkpoint folders, the number of workers, and the limits of their engines.
        shared_weights: The packed weights of the service's other processes; None if this is the only one.

    Attributes:
        workers: How many threads are to step engines.

    Raises:
        ConfigError: If this machine has no such device.
    """

    def __init__(self, settings: Settings, shared_weights: SharedWeights | None = None) -> None:
        self._settings = settings
        self._shared_weights = shared_weights
        self._device = resolve_device(settings.device)
        self._is_native = self._device == "cpu" and _has_library()
        self._devices = every_device(self._device)
        # Before a model is loaded, so that each gets the same.
        self._free_bytes = 0 if self._device == "cpu" else min(map(free_gpu_memory, self._devices))
        cores = math.ceil(available_cores() / max(settings.processes, 1))
        self.workers = settings.workers or (cores if self._is_native else len(self._devices))
        self._num_listed = 1

    def list_models(self) -> Sequence[Model]:
        """The checkpoints that the settings name, the preferred one of a language pair first.

        Raises:
            CheckpointError: If a folder is incomplete or its description invalid.
            ConfigError: If a path holds no checkpoint, or if two checkpoints have the same name.
        """
        models = [self._model(folder) for folder in served_folders(self._settings.checkpoint)]
        names = [model.card.name for model in models]
        if len(set(names)) < len(names):
            raise ConfigError("checkpoint", "checkpoints of different names", ", ".join(sorted(names)))
        self._num_listed = len(models)
        return models

    def load(self, model: Model) -> LoadedModel:
        """See Backend.

        Raises:
            CheckpointError: If the folder is not the complete, sound checkpoint that was listed.
            ConfigError: If a required shortlist is missing, if one sentence does not fit into the decoder
                state, or if this machine does not support the settings.
        """
        began = time.monotonic()
        memory = None
        if self._shared_weights is not None and self._is_native:
            memory = self._shared_weights.open(f"{model.checksum} {self._precision}")
        try:
            factories, tokenizer = self._read(model, memory)
        except BaseException:  # whatever it is: let another process try, then raise it again
            if memory is not None:
                memory.close()
            raise
        first = factories[0]
        # In PyTorch, one engine uses all cores, or a whole GPU.
        count = self.workers if first.is_native or self._settings.workers else len(factories)
        engine_bytes = self._engine_bytes(model.card, first.kv_slot_bytes)
        weight_bytes = sum(factory.weight_bytes for factory in factories)
        return LoadedModel(
            tokenizer=tokenizer,
            engines=tuple(self._engine(model.card, factories[i % len(factories)]) for i in range(count)),
            precision=first.precision,
            memory_bytes=weight_bytes + count * engine_bytes + _file_bytes(model.folder),
            seconds=time.monotonic() - began,
        )

    def _read(self, model: Model, memory: SharedMemory | None) -> tuple[Sequence[EngineFactory], Tokenizer]:
        """Verify a listed checkpoint and read it for each device; packed weights are not read."""
        checkpoint = load_checkpoint(model.folder, with_weights=memory is None or not memory.is_packed)
        if checkpoint.checksum != model.checksum:
            raise ReplacedCheckpointError(f"checkpoint {model.folder} has changed since it was listed")
        if not model.self_test:
            # It may still be sound: from an older release, or of languages without self-test sentences.
            logger.info("no self-test sentences to verify with", extra={"model": model.card.name})
        settings = self._settings
        factories = [
            engine_factory(
                checkpoint,
                device=device,
                precision=settings.precision,
                shortlist=_SHORTLIST[settings.shortlist],
                memory=memory,
            )
            for device in self._devices[: self.workers]
        ]
        return factories, checkpoint.tokenizer

    def verify(self, model: Model) -> None:
        """See Backend.

        Raises:
            CheckpointError: If a file is missing or damaged.
        """
        verify_files(model.folder)

    @property
    def _precision(self) -> Precision:
        return resolve_precision(self._settings.precision, self._device, is_native=self._is_native)

    def _model(self, folder: Path) -> Model:
        listed = list_checkpoint(folder)
        precision = self._precision
        weight_bytes = int(_PARAMETER_BYTES[precision] * listed.num_parameters) * len(self._devices)
        # Keys and values have 2 bytes a number in the native library; on a GPU there are as many again.
        copies = 1 if self._device == "cpu" else 2
        kv_slot_bytes = copies * 2 * 2 * listed.config.heads_dim * listed.config.num_decoder_layers
        engine_bytes = self.workers * self._engine_bytes(listed.card, kv_slot_bytes)
        return Model(
            card=listed.card,
            checksum=listed.checksum,
            device=self._device,
            precision=precision,
            parameters=listed.num_parameters,
            memory_bytes=weight_bytes + engine_bytes + _file_bytes(folder),
            folder=folder,
            self_test=self_test_sentences(listed.provenance),
        )

    def _engine(self, card: ModelCard, factory: EngineFactory) -> DecodingEngine:
        encode_tokens = _NATIVE_ENCODE_TOKENS if factory.is_native else _TORCH_ENCODE_TOKENS
        if factory.device != "cpu":
            encode_tokens = _GPU_ENCODE_TOKENS
        return factory.make(
            max_batch_tokens=self._settings.max_batch_tokens or None,
            max_encode_tokens=self._settings.max_encode_tokens or encode_tokens,
            max_kv_slots=self._max_kv_slots(card, factory.kv_slot_bytes),
        )

    @property
    def _engines_a_device(self) -> int:
        return -(-self.workers // len(self._devices))

    def _engine_bytes(self, card: ModelCard, kv_slot_bytes: int) -> int:
        """Memory of an engine: on a CPU with one sentence of the longest length, on a GPU with all state."""
        is_lazy = self._device == "cpu"
        kv_slots = _most_kv_slots(card) if is_lazy else self._max_kv_slots(card, kv_slot_bytes)
        return _ENGINE_BYTES + kv_slots * kv_slot_bytes

    def _max_kv_slots(self, card: ModelCard, kv_slot_bytes: int) -> int:
        """KV slots that one engine may have.

        Raises:
            ConfigError: If not even one sentence fits.
        """
        state_bytes = self._settings.max_state_bytes
        needed = _most_kv_slots(card)
        if state_bytes == 0:
            if self._device == "cpu":
                return max(needed, min(_CPU_STATE_BYTES // kv_slot_bytes, _MOST_CPU_KV_SLOTS))
            state_bytes = gpu_state_bytes(self._free_bytes) // self._engines_a_device
            most = state_bytes // self._num_listed // kv_slot_bytes
            return max(needed, min(most, MOST_GPU_KV_SLOTS))
        share = state_bytes // self._num_listed
        if share < needed * kv_slot_bytes:
            requirement = f"at least {needed * kv_slot_bytes} for each checkpoint, as {card.name} needs"
            raise ConfigError("max_state_bytes", requirement, state_bytes)
        return share // kv_slot_bytes


def _has_library() -> bool:
    try:
        load_library()
    except NativeError:
        return False
    return True


def _file_bytes(folder: Path) -> int:
    """Memory of a checkpoint's tokenizer and shortlist."""
    sizes = {path.name: path.stat().st_size for path in folder.iterdir() if path.is_file()}
    return sizes.get(SHORTLIST, 0) + _TOKENIZER_FACTOR * sum(sizes.get(name, 0) for name in TOKENIZER_FILES)


def _most_kv_slots(card: ModelCard) -> int:
    """KV slots that one sentence occupies if it is as long as the card permits."""
    return card.max_source_length + card.decoding.rows * card.max_target_length
