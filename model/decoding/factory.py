"""⑤ Which runner drives a network on this machine; nothing else chooses. No torch until it is needed.

On a CPU the native library, where it is built and computes such a network; else PyTorch. On a GPU
PyTorch, with recorded steps.
"""

import dataclasses
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from model.checkpoint.folder import Checkpoint
from model.checkpoint.shortlist import Shortlist
from model.config import TransformerConfig
from model.decoding.device import Precision, resolve_device, resolve_precision
from model.decoding.engine import DecodingEngine
from model.decoding.runner import Runner
from model.errors import ConfigError, NativeError
from model.request import MAX_BEAM_SIZE

if TYPE_CHECKING:
    import torch

    from model.decoding.pytorch.batch_state import Network
    from model.native.tensors import Weights

logger = logging.getLogger(__name__)

# A bound on the logits of one step; what really limits a batch is `max_batch_tokens`.
_MAX_ROWS_OF_A_CPU = 256
_MAX_ROWS_OF_A_GPU = 512
_FEWEST_POSITIONS = 2**15
# Of which steps that are recorded get half: a few hundred rows.
_FEWEST_POSITIONS_OF_A_GPU = 2**18
# PyTorch needs many rows to be worth the starting of its kernels; natively, the decoder state of
# fewer stays in the processor's caches.
_NATIVE_TOKENS = 1024
_TORCH_TOKENS = 4096


@dataclass(frozen=True, kw_only=True)
class EngineFactory:
    """A network in memory; its engines, one a thread, share the weights.

    Attributes:
        config: Of the network.
        device: Where it runs: `cpu`, `cuda` or `cuda:N`.
        precision: What it computes in.
        is_native: Whether each engine keeps one core busy, and Python free to do something else.
        position_bytes: Of one entry of decoder state: keys and values of a position in all layers.
        new_runner: Makes a running batch of its own, with so many entries of decoder state.
        shortlist: See DecodingEngine.
    """

    config: TransformerConfig
    device: str
    precision: Precision
    is_native: bool
    position_bytes: int
    new_runner: Callable[[int], Runner]
    shortlist: Shortlist | None = None

    def make(
        self,
        *,
        max_batch_tokens: int | None = None,
        max_encode_tokens: int = 1024,
        max_positions: int | None = None,
    ) -> DecodingEngine:
        """One more engine.

        Args:
            max_batch_tokens: See DecodingEngine; None is what decodes most sentences a second.
            max_encode_tokens: See DecodingEngine.
            max_positions: Entries of decoder state; None has room for any one request.
        """
        fewest = _FEWEST_POSITIONS if self.device == "cpu" else _FEWEST_POSITIONS_OF_A_GPU
        return DecodingEngine(
            self.new_runner(max_positions or _max_positions(self.config, fewest)),
            self.config,
            max_batch_tokens=max_batch_tokens or (_NATIVE_TOKENS if self.is_native else _TORCH_TOKENS),
            max_encode_tokens=max_encode_tokens,
            shortlist=self.shortlist,
        )


def engine_factory(
    checkpoint: Checkpoint, *, device: str = "auto", precision: str = "auto", shortlist: bool = False
) -> EngineFactory:
    """Bring a checkpoint's network into memory, for the fastest runner that this machine has.

    Args:
        checkpoint: Read and checked.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        precision: `auto`, `float32`, `bfloat16`, `float16` or `int8`.
        shortlist: Produce only what the checkpoint's shortlist has for a sentence.

    Raises:
        ConfigError: If this machine has no such device, or it cannot compute so; if the network lacks an
            encoder or a decoder; or if the checkpoint has no shortlist, and one is asked for.
    """
    checkpoint.config.require_translator()
    if shortlist and checkpoint.shortlist is None:
        requirement = (
            f"off, as checkpoint {checkpoint.folder} has no shortlist (`dragoman shortlist` makes one)"
        )
        raise ConfigError("shortlist", requirement, "on")
    factory = _factory(checkpoint, device, precision)
    return dataclasses.replace(factory, shortlist=checkpoint.shortlist) if shortlist else factory


def _factory(checkpoint: Checkpoint, device: str, precision: str) -> EngineFactory:
    place = resolve_device(device)
    if place == "cpu":
        try:
            return native_factory(
                checkpoint.config,
                checkpoint.weights,
                resolve_precision(precision, place, is_native=True),
                never_produced=checkpoint.tokenizer.target_tag_ids,
            )
        except NativeError as reason:
            logger.info("decoding with PyTorch, not natively: %s", reason)
    return torch_factory(checkpoint, place, resolve_precision(precision, place, is_native=False))


def native_factory(
    config: TransformerConfig,
    weights: "Weights",
    precision: Precision,
    *,
    never_produced: Collection[int] = (),
) -> EngineFactory:
    """A network on the CPU, in the native library.

    Args:
        config: Its shape.
        weights: See NativeNetwork; they are copied.
        precision: What to compute in.
        never_produced: See `torch_runner`.

    Raises:
        NativeError: If there is no library, or it cannot compute such a network.
    """
    from model.decoding.native_network import NativeNetwork
    from model.decoding.native_runner import NativeRunner

    network = NativeNetwork(config, weights, precision)
    logger.info("decoding natively: %s, %s", network.binding.name, precision)
    return EngineFactory(
        config=config,
        device="cpu",
        precision=precision,
        is_native=True,
        position_bytes=network.slot_bytes,
        new_runner=lambda max_positions: NativeRunner(
            network,
            max_rows=_MAX_ROWS_OF_A_CPU,
            max_positions=max_positions,
            never_produced=never_produced,
        ),
    )


def torch_factory(checkpoint: Checkpoint, device: str, precision: Precision) -> EngineFactory:
    """The same in PyTorch, whatever else there is.

    Raises:
        ConfigError: If PyTorch cannot compute so there.
    """
    from model.decoding.pytorch.device_memory import load_network

    config, never_produced = checkpoint.config, checkpoint.tokenizer.target_tag_ids
    network = load_network(checkpoint, device, precision)
    number_bytes = 4 if precision == "float32" else 2
    # Of a GPU's positions as many again lie ready in grids of fixed size.
    copies = 1 if device == "cpu" else 2
    return EngineFactory(
        config=config,
        device=device,
        precision=precision,
        is_native=False,
        position_bytes=copies * 2 * number_bytes * config.model_dim * config.num_decoder_layers,
        new_runner=lambda max_positions: (torch_runner if device == "cpu" else _graph_runner)(
            network, device, max_positions=max_positions, never_produced=never_produced
        ),
    )


def _graph_runner(
    network: "Network", device: str, *, max_positions: int, never_produced: Collection[int]
) -> Runner:
    """A running batch in PyTorch whose usual steps are recorded beforehand; the weights must not change.

    Where a step cannot be recorded, one that starts its kernels singly.
    """
    from model.decoding.pytorch.static_runner import StaticRunner

    runner = StaticRunner(
        network,
        device,
        max_rows=_MAX_ROWS_OF_A_GPU,
        max_positions=max_positions,
        never_produced=never_produced,
    )
    try:
        runner.warm_up()
    except RuntimeError as reason:
        # As text: a record that somebody keeps would keep the frames, and in them the runner.
        logger.warning("decoding without CUDA graphs: %s", str(reason))
        runner.close()
    else:
        return runner
    # As much memory is asked for again; the frames of the error are gone here, and held the rest of it.
    del runner
    return torch_runner(network, device, max_positions=max_positions, never_produced=never_produced)


def torch_runner(
    network: "Network",
    device: "torch.device | str",
    *,
    max_positions: int | None = None,
    never_produced: Collection[int] = (),
) -> Runner:
    """A running batch in PyTorch.

    Args:
        network: In evaluation mode; its weights may change while nothing runs.
        device: Where it lives.
        max_positions: Entries of decoder state; None has room for any one request.
        never_produced: Target ids that no translation may hold, beside padding and BOS: language
            tags, for example.
    """
    import torch

    from model.decoding.pytorch.torch_runner import TorchRunner

    place = torch.device(device)
    return TorchRunner(
        network,
        place,
        max_rows=_MAX_ROWS_OF_A_CPU if place.type == "cpu" else _MAX_ROWS_OF_A_GPU,
        max_positions=max_positions or _max_positions(network.config, _FEWEST_POSITIONS),
        never_produced=never_produced,
    )


def torch_engine(
    network: "Network",
    *,
    device: "torch.device | str" = "cpu",
    never_produced: Collection[int] = (),
    max_batch_tokens: int = _TORCH_TOKENS,
) -> DecodingEngine:
    """An engine over a network that is in PyTorch already; see `torch_runner`."""
    runner = torch_runner(network, device, never_produced=never_produced)
    return DecodingEngine(runner, network.config, max_batch_tokens=max_batch_tokens)


def _max_positions(config: TransformerConfig, fewest: int) -> int:
    """Room for any one request that the network can serve, and for many ordinary ones."""
    return max(fewest, config.max_positions * (1 + MAX_BEAM_SIZE))
