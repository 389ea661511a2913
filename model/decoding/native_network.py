"""⑤ A network's weights, packed for the native library and shared by any number of sessions and threads."""

import hashlib
import math
import weakref

from model.config import TransformerConfig
from model.errors import NativeError
from model.native.binding import Library, freed_with, load_library
from model.native.shared_weights import SharedMemory
from model.native.structures import NativeConfig
from model.native.tensors import TensorReader, Weights
from model.network.parameters import parameter_shapes

_PRECISIONS = {"float32": 0, "bfloat16": 1, "int8": 2}
_ACTIVATIONS = {"relu": 0, "gelu": 1, "silu": 2, "gelu_tanh": 3}
_NORM_FORMS = {"variance": 0, "standard_deviation": 1, "root_mean_square": 2}
_POSITIONS = {"sinusoidal": 0, "learned": 1, "relative": 2, "rotary": 3, "relative_vectors": 4}
LONGEST_INT8_SUM = 2**31 // (128 * 128) - 1
"""The most products of two int8 numbers whose sum always fits an int32."""
_LARGEST = 2**30  # twice as much (distances in both directions) still fits an int32


class NativeNetwork:
    """An encoder-decoder in the native library.

    Args:
        config: Configuration of the network.
        weights: Tensors by the names of the Transformer's `state_dict()`, tied ones at least by the first
            name; they are copied one after the other and need not live on.
        precision: Precision of the weights in the large products: `float32`, `bfloat16` or `int8`.
        library: The library to use; by default the fastest one for this processor.
        memory: A file for the packed weights, which other processes map too; None for memory of this process
            only. If another process has packed them, the tensors are not read. It is closed with the network.

    Attributes:
        config: As given.
        precision: As given.
        binding: The library's functions.

    Raises:
        NativeError: If there is no library, or it does not support the network.
    """

    def __init__(
        self,
        config: TransformerConfig,
        weights: Weights,
        precision: str = "float32",
        *,
        library: Library | None = None,
        memory: SharedMemory | None = None,
    ) -> None:
        native_config = _native_config(config, precision)
        self.config, self.precision = config, precision
        self.binding = library or load_library()
        label = _label(self.binding, native_config)
        if memory is not None and memory.is_packed and memory.label() != label:
            raise NativeError("the weights of another process are of another network or library")
        reader = TensorReader(weights, parameter_shapes(config))
        descriptor = -1 if memory is None else memory.descriptor
        try:
            self.address = self.binding.network_create(native_config, reader.callback, descriptor)
        except NativeError:
            if reader.error is not None:
                raise reader.error from None
            raise
        freed_with(self, self.binding.network_free, self.address)
        if memory is not None:
            weakref.finalize(self, memory.close)
            if not memory.is_packed:
                memory.publish(label)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the packed weights."""
        return int(self.binding.network_weight_bytes(self.address))

    @property
    def slot_bytes(self) -> int:
        """Bytes of a KV slot: the keys and values of one position in all decoder layers."""
        return int(self.binding.network_slot_bytes(self.address))


def _label(library: Library, config: NativeConfig) -> bytes:
    """What packed weights depend on, except for the weights themselves."""
    return hashlib.sha512(library.name.encode() + bytes(config)).digest()


def _native_config(config: TransformerConfig, precision: str) -> NativeConfig:
    if not config.num_encoder_layers or not config.num_decoder_layers:
        raise NativeError("the native library computes encoder-decoders only")
    if precision not in _PRECISIONS:
        raise NativeError(f"the native library computes in {', '.join(_PRECISIONS)}, not in {precision}")
    for name, value in config.to_dict().items():
        if isinstance(value, int) and value > _LARGEST:
            raise NativeError(f"the native library computes with {name} up to {_LARGEST}, not with {value}")
    longest = max(config.model_dim, config.heads_dim, config.ffn_dim)
    if precision == "int8" and longest > LONGEST_INT8_SUM:
        raise NativeError(
            f"the native library computes int8 sums of up to {LONGEST_INT8_SUM} products, not of {longest}"
        )
    return NativeConfig(
        source_vocab_size=config.source_vocab_size,
        target_vocab_size=config.target_vocab_size,
        model_dim=config.model_dim,
        num_heads=config.num_heads,
        num_encoder_layers=config.num_encoder_layers,
        num_decoder_layers=config.num_decoder_layers,
        ffn_dim=config.ffn_dim,
        head_dim=config.head_dim,
        activation=_ACTIVATIONS[config.activation],
        is_pre_norm=config.norm_position == "pre",
        has_final_norm=config.final_norm,
        norm_form=_NORM_FORMS[config.norm_form],
        has_gated_ffn=config.gated_ffn,
        has_recurrent_cells=config.decoder_memory == "ssru",
        positions=_POSITIONS[config.positions],
        has_sinusoid_halves=config.sinusoid_layout == "halves",
        has_sinusoid_endpoint=config.sinusoid_endpoint,
        sinusoid_offset=config.sinusoid_offset,
        relative_buckets=config.relative_buckets,
        relative_max_distance=config.relative_max_distance,
        max_positions=config.max_positions,
        scales_embeddings=config.scale_embeddings,
        precision=_PRECISIONS[precision],
        norm_epsilon=config.norm_epsilon,
        embedding_norm_epsilon=config.embedding_norm_epsilon or config.norm_epsilon,
        attention_scale=config.attention_scale or 1 / math.sqrt(config.head_dim),
        logit_scale=config.logit_scale,
    )
