"""⑤ A network's weights, packed for the native library and shared by any number of sessions and threads."""

from collections.abc import Mapping

from model.config import TransformerConfig
from model.errors import NativeError
from model.native.binding import Library, freed_with, load_library
from model.native.structures import NamedTensor, NativeConfig
from model.native.tensors import Block, Weights
from model.network.parameters import Shape, parameter_shapes

_PRECISIONS = {"float32": 0, "bfloat16": 1, "int8": 2}
_ACTIVATIONS = {"relu": 0, "gelu": 1, "silu": 2}
_POSITIONS = {"sinusoidal": 0, "learned": 1, "relative": 2, "rotary": 3}
_COMPUTED: Mapping[str, tuple[object, ...]] = {
    "attention_dim": (None,),
    "attention_scale": (None,),
    "decoder_memory": ("attention",),
    "activation": tuple(_ACTIVATIONS),
    "gated_ffn": (False,),
    "norm_form": ("variance", "standard_deviation"),
    "sinusoid_offset": (0,),
    "sinusoid_endpoint": (False,),
    "logit_scale": (1.0,),
}
"""Values that the library computes, of fields that allow more."""
_LARGEST = 2**30  # twice as much (distances in both directions) still fits an int32


class NativeNetwork:
    """An encoder-decoder in the native library.

    Args:
        config: Configuration of the network.
        weights: Tensors by the names of the Transformer's `state_dict()`, tied ones at least by the first
            name; they are copied and need not live on.
        precision: Precision of the weights in the large products: `float32`, `bfloat16` or `int8`.
        library: The library to use; by default the fastest one for this processor.

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
    ) -> None:
        native_config = _native_config(config, precision)
        self.config, self.precision = config, precision
        self.binding = library or load_library()
        shapes = parameter_shapes(config)
        read = {name: weights[name] for name in shapes if name in weights}  # alive until they are packed
        named = [_named_tensor(name, read, shape) for name, shape in shapes.items()]
        tensors = (NamedTensor * len(named))(*named)
        self.address = self.binding.network_create(native_config, tensors, len(tensors))
        freed_with(self, self.binding.network_free, self.address)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the packed weights."""
        return int(self.binding.network_weight_bytes(self.address))

    @property
    def slot_bytes(self) -> int:
        """Bytes of a KV slot: the keys and values of one position in all decoder layers."""
        return int(self.binding.network_slot_bytes(self.address))


def _native_config(config: TransformerConfig, precision: str) -> NativeConfig:
    if not config.num_encoder_layers or not config.num_decoder_layers:
        raise NativeError("the native library computes encoder-decoders only")
    if precision not in _PRECISIONS:
        raise NativeError(f"the native library computes in {', '.join(_PRECISIONS)}, not in {precision}")
    for name, values in _COMPUTED.items():
        if (value := getattr(config, name)) not in values:
            raise NativeError(f"the native library does not compute {name} {value}")
    for name, value in config.to_dict().items():
        if isinstance(value, int) and value > _LARGEST:
            raise NativeError(f"the native library computes with {name} up to {_LARGEST}, not with {value}")
    return NativeConfig(
        source_vocab_size=config.source_vocab_size,
        target_vocab_size=config.target_vocab_size,
        model_dim=config.model_dim,
        num_heads=config.num_heads,
        num_encoder_layers=config.num_encoder_layers,
        num_decoder_layers=config.num_decoder_layers,
        ffn_dim=config.ffn_dim,
        activation=_ACTIVATIONS[config.activation],
        is_pre_norm=config.norm_position == "pre",
        has_final_norm=config.final_norm,
        norm_divides_by_deviation=config.norm_form == "standard_deviation",
        positions=_POSITIONS[config.positions],
        has_sinusoid_halves=config.sinusoid_layout == "halves",
        relative_buckets=config.relative_buckets,
        relative_max_distance=config.relative_max_distance,
        max_positions=config.max_positions,
        scales_embeddings=config.scale_embeddings,
        precision=_PRECISIONS[precision],
        norm_epsilon=config.norm_epsilon,
    )


def _named_tensor(name: str, weights: Weights, shape: Shape) -> NamedTensor:
    if name not in weights:
        raise NativeError(f"tensor {name!r} is missing")
    block = Block.of(name, weights[name], shape)
    return NamedTensor(name.encode(), block.address, block.type, block.rows, block.columns)
