"""Which runner drives a network on this machine; nothing else chooses. No torch until it is needed.

On a CPU the native library decodes if it is built and supports the network, and PyTorch otherwise. On a
GPU, PyTorch decodes with recorded steps.
"""

import dataclasses
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from model.checkpoint.folder import Checkpoint
from model.checkpoint.manifest import ORIGIN
from model.checkpoint.shortlist import Shortlist
from model.config import TransformerConfig
from model.decode_request import MAX_BEAM_SIZE
from model.decoding.device import Precision, free_gpu_memory, resolve_device, resolve_precision
from model.decoding.engine import DecodingEngine
from model.decoding.runner import Runner
from model.errors import ConfigError, NativeError
from model.validators import require_torch

if TYPE_CHECKING:
    import torch

    from model.native.shared_weights import SharedMemory
    from model.native.tensors import Weights
    from model.network.transformer import Transformer

logger = logging.getLogger(__name__)

# Bounds the logits of one step; in practice `max_batch_tokens` limits a batch.
_MAX_ROWS_OF_A_CPU = 256
_FEWEST_KV_SLOTS = 2**15
# PyTorch needs many rows to amortise kernel launches; natively, the decoder state of fewer rows stays in
# the processor's caches.
_NATIVE_TOKENS = 1024
_TORCH_TOKENS = 4096

# The batches of a GPU: predictions, not measurements, chose these constants; docs/performance.md has them.
GPU_CAPACITY = 256
"""Longest source and translation in a fixed batch."""
_FEWEST_GPU_ROWS, _MOST_GPU_ROWS = 8, 1024
# A sentence of the usual 24 tokens takes 24 KV slots for its source and at most 92 for each translation.
_KV_SLOTS_A_ROW = 256
MOST_GPU_KV_SLOTS = _MOST_GPU_ROWS * _KV_SLOTS_A_ROW
"""KV slots of an engine with full batches; more would never be used at once."""
# Logits of a step are float32 and exist a few times: this many are a gigabyte.
_MOST_LOGITS = 2**26
# A reload needs the state of the old and of the new models at once; weights need memory, too.
_STATE_SHARE = 0.4
GPU_TOKENS_A_ROW = 64
"""With the usual 24 tokens a sentence, rows fill up before tokens do."""
_USUAL_WIDTHS = (1, 4)


@dataclass(frozen=True, kw_only=True)
class EngineFactory:
    """A network in memory; its engines, one per thread, share the weights.

    Attributes:
        config: Configuration of the network.
        device: `cpu`, `cuda` or `cuda:N`.
        precision: Precision of the computation.
        is_native: Whether the native library computes, so that each engine uses one core and Python's
            lock is free meanwhile.
        kv_slot_bytes: Bytes of one KV slot: keys and values of a position in all layers.
        weight_bytes: Bytes of the weights.
        new_runner: Makes a new runner with a given number of KV slots.
        shortlist: See DecodingEngine.
    """

    config: TransformerConfig
    device: str
    precision: Precision
    is_native: bool
    kv_slot_bytes: int
    weight_bytes: int
    new_runner: Callable[[int], Runner]
    shortlist: Shortlist | None = None

    def make(
        self,
        *,
        max_batch_tokens: int | None = None,
        max_encode_tokens: int = 1024,
        max_kv_slots: int | None = None,
    ) -> DecodingEngine:
        """One more engine.

        Args:
            max_batch_tokens: See DecodingEngine; None is the fastest value.
            max_encode_tokens: See DecodingEngine.
            max_kv_slots: Number of KV slots; None is enough for any single request, and on a GPU for
                full batches if there is memory for them.
        """
        runner = self.new_runner(max_kv_slots or self._default_kv_slots())
        return DecodingEngine(
            runner,
            self.config,
            max_batch_tokens=max_batch_tokens or self._default_tokens(runner),
            max_encode_tokens=max_encode_tokens,
            shortlist=self.shortlist,
        )

    def _default_kv_slots(self) -> int:
        if self.device == "cpu":
            return _max_kv_slots(self.config, _FEWEST_KV_SLOTS)
        affordable = gpu_state_bytes(free_gpu_memory(self.device)) // self.kv_slot_bytes
        return _max_kv_slots(self.config, min(affordable, MOST_GPU_KV_SLOTS))

    def _default_tokens(self, runner: Runner) -> int:
        if self.device != "cpu":
            return runner.max_rows * GPU_TOKENS_A_ROW
        return _NATIVE_TOKENS if self.is_native else _TORCH_TOKENS


def engine_factory(
    checkpoint: Checkpoint,
    *,
    device: str = "auto",
    precision: str = "auto",
    shortlist: bool | None = None,
    memory: "SharedMemory | None" = None,
) -> EngineFactory:
    """Load a checkpoint's network into memory, for the fastest runner of this machine.

    Args:
        checkpoint: A loaded checkpoint.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        precision: `auto`, `float32`, `bfloat16`, `float16` or `int8`.
        shortlist: Produce only the candidates that the checkpoint's shortlist has for a sentence; None does
            so in int8 if the checkpoint was imported together with one.
        memory: See NativeNetwork.

    Raises:
        ConfigError: If this machine has no such device, or the device does not support the precision; if
            the network lacks an encoder or a decoder; or if a shortlist is asked for and the checkpoint
            has none.
    """
    checkpoint.config.require_translator()
    if shortlist and checkpoint.shortlist is None:
        requirement = (
            f"off, as checkpoint {checkpoint.folder} has no shortlist (`dragoman shortlist` makes one)"
        )
        raise ConfigError("shortlist", requirement, "on")
    factory = _factory(checkpoint, device, precision, memory)
    if shortlist is None:
        shortlist = factory.precision == "int8" and ORIGIN in checkpoint.provenance
    return dataclasses.replace(factory, shortlist=checkpoint.shortlist) if shortlist else factory


def _factory(
    checkpoint: Checkpoint, device: str, precision: str, memory: "SharedMemory | None"
) -> EngineFactory:
    resolved = resolve_device(device)
    if resolved == "cpu":
        try:
            return native_factory(
                checkpoint.config,
                checkpoint.weights,
                resolve_precision(precision, resolved, is_native=True),
                never_produced=checkpoint.tokenizer.target_tag_ids,
                memory=memory,
            )
        except NativeError as reason:
            if memory is not None and memory.is_packed:
                raise
            require_torch(f"decoding without the native library ({reason})")
            logger.info("decoding with PyTorch, not natively: %s", reason)
    return torch_factory(checkpoint, resolved, resolve_precision(precision, resolved, is_native=False))


def native_factory(
    config: TransformerConfig,
    weights: "Weights",
    precision: Precision,
    *,
    never_produced: Collection[int] = (),
    memory: "SharedMemory | None" = None,
) -> EngineFactory:
    """A network on the CPU, in the native library.

    Args:
        config: Configuration of the network.
        weights: See NativeNetwork; they are copied.
        precision: Precision of the computation.
        never_produced: See NativeRunner.
        memory: See NativeNetwork.

    Raises:
        NativeError: If there is no library, or it does not support the network.
    """
    from model.decoding.native_runner import NativeNetwork, NativeRunner

    network = NativeNetwork(config, weights, precision, memory=memory)
    logger.info("decoding natively: %s, %s", network.binding.name, precision)
    return EngineFactory(
        config=config,
        device="cpu",
        precision=precision,
        is_native=True,
        kv_slot_bytes=network.kv_slot_bytes,
        weight_bytes=network.weight_bytes,
        new_runner=lambda max_kv_slots: NativeRunner(
            network,
            max_rows=_MAX_ROWS_OF_A_CPU,
            max_kv_slots=max_kv_slots,
            never_produced=never_produced,
        ),
    )


def torch_factory(checkpoint: Checkpoint, device: str, precision: Precision) -> EngineFactory:
    """A checkpoint's network in PyTorch, on any device.

    Raises:
        ConfigError: If PyTorch does not support the precision on the device.
    """
    import torch

    from model.decoding.pytorch.kernel_check import fuse_steps
    from model.decoding.pytorch.static_runner import StaticRunner
    from model.decoding.pytorch.torch_runner import load_network

    config, never = checkpoint.config, checkpoint.tokenizer.target_tag_ids
    network = load_network(checkpoint, device, precision)
    number_bytes = 4 if precision == "float32" else 2
    is_fused = fuse_steps(network, torch.device(device))

    def static_runner(max_kv_slots: int) -> Runner:
        runner = StaticRunner(
            network,
            device,
            max_rows=gpu_rows(max_kv_slots, config.target_vocab_size),
            max_kv_slots=max_kv_slots,
            widths=tuple(sorted({*_USUAL_WIDTHS, checkpoint.card.decoding.rows})),
            capacity=GPU_CAPACITY,
            never_produced=never,
            is_fused=is_fused,
        )
        runner.warm_up()
        return runner

    return EngineFactory(
        config=config,
        device=device,
        precision=precision,
        is_native=False,
        kv_slot_bytes=2 * number_bytes * config.heads_dim * config.num_decoder_layers,
        weight_bytes=number_bytes * checkpoint.num_parameters,
        new_runner=partial(_torch_runner, network, device, never) if device == "cpu" else static_runner,
    )


def _torch_runner(
    network: "Transformer", device: "torch.device | str", never_produced: Collection[int], max_kv_slots: int
) -> Runner:
    from model.decoding.pytorch.torch_runner import TorchRunner

    return TorchRunner(
        network,
        device,
        max_rows=_MAX_ROWS_OF_A_CPU,
        max_kv_slots=max_kv_slots,
        never_produced=never_produced,
    )


def gpu_state_bytes(free_bytes: int) -> int:
    """Bytes of decoder state that the models of one GPU may have.

    Args:
        free_bytes: Free memory before any of them is loaded.
    """
    return int(free_bytes * _STATE_SHARE)


def gpu_rows(max_kv_slots: int, vocab_size: int) -> int:
    """Hypotheses that an engine on a GPU computes at once: a power of two.

    Args:
        max_kv_slots: KV slots of the engine.
        vocab_size: Target vocabulary of the network.
    """
    rows = min(max_kv_slots // _KV_SLOTS_A_ROW, _MOST_LOGITS // vocab_size, _MOST_GPU_ROWS)
    return max(1 << rows.bit_length() - 1 if rows else 0, _FEWEST_GPU_ROWS)


def torch_engine(
    network: "Transformer",
    *,
    device: "torch.device | str" = "cpu",
    never_produced: Collection[int] = (),
    max_batch_tokens: int = _TORCH_TOKENS,
) -> DecodingEngine:
    """An engine over a PyTorch network.

    Args:
        network: In evaluation mode; its weights may change while nothing runs.
        device: Where the network is.
        never_produced: See NativeRunner.
        max_batch_tokens: See DecodingEngine.
    """
    max_kv_slots = _max_kv_slots(network.config, _FEWEST_KV_SLOTS)
    runner = _torch_runner(network, device, never_produced, max_kv_slots)
    return DecodingEngine(runner, network.config, max_batch_tokens=max_batch_tokens)


def _max_kv_slots(config: TransformerConfig, fewest: int) -> int:
    """KV slots for any single request that the network can serve, and for many ordinary ones."""
    return max(fewest, config.max_positions * (1 + MAX_BEAM_SIZE))
