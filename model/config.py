"""The shape of a network: every variant is a value of TransformerConfig. No torch.

Presets are named configurations: the published sizes, and one for each of several well-known tutorials.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Self, get_args, get_origin, get_type_hints

from model.errors import ConfigError
from model.validators import (
    require,
    require_choice,
    require_flag,
    require_given,
    require_integer,
    require_known,
    require_number,
)

Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]
NormPosition = Literal["pre", "post"]
NormForm = Literal["variance", "standard_deviation", "root_mean_square"]
Positions = Literal["sinusoidal", "learned", "relative", "relative_vectors", "rotary"]
SinusoidLayout = Literal["interleaved", "halves"]
DecoderMemory = Literal["attention", "ssru"]
Tie = Literal["none", "embeddings", "decoder", "all"]
Initialisation = Literal["xavier", "normal"]

_MOST_LAYERS = 1000  # as deep as any has been trained (Wang et al. 2022, https://arxiv.org/abs/2203.00555)
_RATES = ("embedding_dropout", "attention_dropout", "ffn_dropout", "residual_dropout", "layer_drop")
ONLY_FOR_TRAINING = (*_RATES, "initialisation")
"""Fields that say nothing of what trained weights compute."""
FORMER_FIELDS: Mapping[str, tuple[str, ...]] = {"linear_bias": ("attention_bias", "ffn_bias")}
"""Fields of earlier releases, and those that have taken their place; still read."""
_MINGPT: dict[str, object] = {
    "num_encoder_layers": 0,
    "norm_position": "pre",
    "final_norm": True,
    "activation": "gelu",
    "positions": "learned",
    "scale_embeddings": False,
    "initialisation": "normal",
    "attention_dropout": 0.1,
}

PRESETS: Mapping[str, Mapping[str, object]] = {
    # Vaswani et al. 2017, table 3.
    "base": {"tie": "all"},
    "big": {
        "tie": "all",
        "model_dim": 1024,
        "num_heads": 16,
        "ffn_dim": 4096,
        "embedding_dropout": 0.3,
        "residual_dropout": 0.3,
    },
    # Deep encoder, shallow decoder, because most of the time of a translation goes into the decoder.
    "small": {
        "model_dim": 256,
        "num_heads": 4,
        "num_encoder_layers": 4,
        "num_decoder_layers": 2,
        "ffn_dim": 1024,
        "norm_position": "pre",
        "final_norm": True,
        "tie": "all",
    },
    # The networks of five tutorials, parameter for parameter; docs/variants.md builds each.
    # The nanoGPT-style translator: pre-norm, no biases, ReLU × 4, one embedding for both sides.
    "nanogpt": {
        "model_dim": 384,
        "num_heads": 6,
        "ffn_dim": 1536,
        "norm_position": "pre",
        "final_norm": True,
        "norm_bias": False,
        "attention_bias": False,
        "ffn_bias": False,
        "scale_embeddings": False,
        "tie": "embeddings",
        "vocab_multiple": 64,
        "initialisation": "normal",
        "attention_dropout": 0.1,
    },
    # Post-norm from scratch, two small vocabularies; projections inside the layers have no biases.
    "postnorm": {
        "source_vocab_size": 100,
        "target_vocab_size": 200,
        "ffn_dim": 1024,
        "attention_bias": False,
        "ffn_bias": False,
        "output_bias": True,
        "scale_embeddings": False,
    },
    # The encoder step by step, an encoder alone: BERT's embedding and sizes, pre-norm layers.
    "bert": {
        "num_decoder_layers": 0,
        "num_encoder_layers": 12,
        "model_dim": 768,
        "num_heads": 12,
        "ffn_dim": 3072,
        "activation": "gelu",
        "norm_position": "pre",
        "positions": "learned",
        "embedding_norm": True,
        "embedding_norm_epsilon": 1e-12,
        "scale_embeddings": False,
        "initialisation": "normal",
        "attention_dropout": 0.1,
    },
    # The annotated kind: pre-norm without final norms.
    "annotated": {
        "norm_position": "pre",
        "ffn_dropout": 0.1,
        "attention_dropout": 0.1,
        "output_bias": True,
    },
    # Dive into Deep Learning, section 11.7.
    "d2l": {
        "model_dim": 32,
        "num_heads": 4,
        "num_encoder_layers": 2,
        "num_decoder_layers": 2,
        "ffn_dim": 64,
        "attention_bias": False,
        "output_bias": True,
        "attention_dropout": 0.1,
    },
    # minGPT's three smallest: a decoder alone.
    "gpt-nano": _MINGPT | {"num_decoder_layers": 3, "num_heads": 3, "model_dim": 48, "ffn_dim": 192},
    "gpt-micro": _MINGPT | {"num_decoder_layers": 4, "num_heads": 4, "model_dim": 128, "ffn_dim": 512},
    "gpt-mini": _MINGPT | {"num_decoder_layers": 6, "num_heads": 6, "model_dim": 192, "ffn_dim": 768},
}


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """One Transformer (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762) and its variants.

    With no decoder layers the network is an encoder alone, with no encoder layers a decoder
    alone (a language model without cross-attention).

    Attributes:
        source_vocab_size: Source tokens, special ones included.
        target_vocab_size: Target tokens; equal to the source's where the embedding is shared.
        model_dim: Width of the residual stream.
        num_heads: Attention heads; divides `attention_dim`.
        attention_dim: Width of all heads together; None for `model_dim`.
        attention_scale: Factor of QKᵀ; None for 1/√(width of a head). T5 has 1.
        num_encoder_layers: Depth of the encoder.
        num_decoder_layers: Depth of the decoder.
        decoder_memory: What lets a decoder layer see earlier targets: attention, or `ssru`, the recurrent
            cell of Kim et al. 2019 (https://aclanthology.org/D19-5632).
        ffn_dim: Inner width of the feed-forward blocks.
        activation: Between the two feed-forward projections; `gelu_tanh` is GELU's approximation by tanh.
        gated_ffn: Multiply the activation by a third projection of the input
            (https://arxiv.org/abs/2002.05202).
        norm_position: `pre`: x + f(norm(x)); `post`: norm(x + f(x)).
        final_norm: One more layer norm at the end of each stack.
        norm_bias: Whether layer norms shift as well as scale.
        norm_epsilon: Added to the variance, the standard deviation or the mean square.
        norm_form: Divide by sqrt(variance + ε); by (standard deviation + ε) with Bessel's correction, as the
            Annotated Transformer does; or by sqrt(mean square + ε) without subtracting the mean, as T5 does
            (https://arxiv.org/abs/1910.07467).
        attention_bias: Whether the projections of attention have a bias.
        ffn_bias: Whether those of the feed-forward blocks have one.
        output_bias: Whether the projection onto the vocabulary has one.
        positions: How order enters; `relative` is T5's bucketed bias
            (https://arxiv.org/abs/1910.10683), `relative_vectors` are added to the keys and values that a
            query attends to (Shaw et al. 2018, https://arxiv.org/abs/1803.02155), `rotary` is RoPE
            (https://arxiv.org/abs/2104.09864).
        sinusoid_layout: Sines and cosines in turn as in the paper, or all sines first as in Marian.
        sinusoid_offset: Position p gets the sinusoids of p + offset.
        sinusoid_endpoint: Let frequencies end at exactly 1/10000, so that the exponent's denominator is
            model_dim/2 − 1, as in Marian and fairseq; if not, it is model_dim/2, as in the paper.
        relative_buckets: Buckets of the relative bias.
        relative_max_distance: Distance from which all share the last bucket or vector.
        max_positions: Longest sequence; a bound for learned positions, a limit to announce otherwise.
        embedding_norm: Layer norm after the embedding sum, as in BERT.
        embedding_norm_epsilon: `norm_epsilon` of that norm; None for that of the others.
        scale_embeddings: Multiply token embeddings by sqrt(model_dim).
        logit_scale: Factor of the decoder's states before the output projection.
        tie: `none`; `embeddings`: source embedding = target embedding; `decoder`: target embedding = output
            projection; `all`: all three.
        vocab_multiple: Embedding rows are padded to a multiple of this; padded ids are never produced.
        embedding_dropout: After the embedding sum; below 1, as every rate.
        attention_dropout: On attention weights.
        ffn_dropout: After the activation.
        residual_dropout: On each block's output, before it is added.
        layer_drop: Probability of skipping a whole layer (https://arxiv.org/abs/1909.11556).
        initialisation: `xavier`, or `normal` (σ = 0.02, residual outputs 0.02 / sqrt(2 × layers)).
        pad_id: Padding, the same id on both sides; masked everywhere.
        bos_id: Beginning of a target sentence.
        eos_id: End of a sentence.
        unk_id: Unknown piece.
        decoder_start_id: First decoder input, usually `bos_id`.
    """

    source_vocab_size: int
    target_vocab_size: int
    model_dim: int = 512
    num_heads: int = 8
    attention_dim: int | None = None
    attention_scale: float | None = None
    num_encoder_layers: int = 6
    num_decoder_layers: int = 6
    decoder_memory: DecoderMemory = "attention"
    ffn_dim: int = 2048
    activation: Activation = "relu"
    gated_ffn: bool = False
    norm_position: NormPosition = "post"
    final_norm: bool = False
    norm_bias: bool = True
    norm_epsilon: float = 1e-5
    norm_form: NormForm = "variance"
    attention_bias: bool = True
    ffn_bias: bool = True
    output_bias: bool = False
    positions: Positions = "sinusoidal"
    sinusoid_layout: SinusoidLayout = "interleaved"
    sinusoid_offset: int = 0
    sinusoid_endpoint: bool = False
    relative_buckets: int = 32
    relative_max_distance: int = 128
    max_positions: int = 512
    embedding_norm: bool = False
    embedding_norm_epsilon: float | None = None
    scale_embeddings: bool = True
    logit_scale: float = 1.0
    tie: Tie = "none"
    vocab_multiple: int = 1
    embedding_dropout: float = 0.1
    attention_dropout: float = 0.0
    ffn_dropout: float = 0.0
    residual_dropout: float = 0.1
    layer_drop: float = 0.0
    initialisation: Initialisation = "xavier"
    pad_id: int = 0
    bos_id: int = 2
    eos_id: int = 3
    unk_id: int = 1
    decoder_start_id: int = 2

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(type(self)).items():
            if get_origin(kind) is Literal:
                require_choice(name, getattr(self, name), get_args(kind))
            elif kind is bool:
                require_flag(name, getattr(self, name))
        for name in _RATES:
            require_number(name, getattr(self, name), 0, 1, open_maximum=True)
        self._check_sizes()
        self._check_vocabulary()

    def _check_sizes(self) -> None:
        for name in ("model_dim", "num_heads", "ffn_dim", "max_positions", "vocab_multiple"):
            require_integer(name, getattr(self, name), 1)
        for name in ("num_encoder_layers", "num_decoder_layers"):
            require_integer(name, getattr(self, name), 0, _MOST_LAYERS)
        if self.num_encoder_layers == self.num_decoder_layers == 0:
            raise ConfigError("num_encoder_layers", "at least 1 where there is no decoder", 0)
        deviates = self.norm_form != "standard_deviation" or self.model_dim > 1
        require(deviates, "model_dim", "at least 2 for norms by standard deviation", self.model_dim)
        self._check_heads()
        self._check_positions()
        require_number("norm_epsilon", self.norm_epsilon, 0, 1, open_minimum=True)
        if self.embedding_norm_epsilon is not None:
            require_number("embedding_norm_epsilon", self.embedding_norm_epsilon, 0, 1, open_minimum=True)
        require_number("logit_scale", self.logit_scale, 0, open_minimum=True)

    def _check_heads(self) -> None:
        name = "model_dim" if self.attention_dim is None else "attention_dim"
        require_integer(name, self.heads_dim, 1)
        divides = self.heads_dim % self.num_heads == 0
        require(divides, "num_heads", f"a divisor of {name} ({self.heads_dim})", self.num_heads)
        if self.attention_scale is not None:
            require_number("attention_scale", self.attention_scale, 0, open_minimum=True)

    def _check_positions(self) -> None:
        if self.positions == "sinusoidal":
            require(self.model_dim % 2 == 0, "model_dim", "even for sinusoidal positions", self.model_dim)
            divisible = not self.sinusoid_endpoint or self.model_dim >= 4
            require(divisible, "model_dim", "at least 4 for sinusoid_endpoint", self.model_dim)
        if self.positions == "rotary":
            turnable = f"such that heads of {self.heads_dim} / num_heads are even for rotary positions"
            require(self.head_dim % 2 == 0, "num_heads", turnable, self.num_heads)
        require_integer("sinusoid_offset", self.sinusoid_offset, 0, 2**30)
        require_integer("relative_buckets", self.relative_buckets, 4)
        least = 1 if self.positions == "relative_vectors" else self.relative_buckets
        require_integer("relative_max_distance", self.relative_max_distance, least, 2**30)

    def _check_vocabulary(self) -> None:
        require_integer("source_vocab_size", self.source_vocab_size, 1)
        require_integer("target_vocab_size", self.target_vocab_size, 1)
        smallest = min(self.source_vocab_size, self.target_vocab_size)
        for name in ("pad_id", "bos_id", "eos_id", "unk_id", "decoder_start_id"):
            require_integer(name, getattr(self, name), 0, smallest - 1)
        require(self.pad_id != self.eos_id, "pad_id", "different from eos_id", self.pad_id)
        is_apart = self.tie in ("none", "decoder")
        shareable = is_apart or self.source_vocab_size == self.target_vocab_size
        require(shareable, "tie", "none or decoder where the two vocabularies differ in size", self.tie)

    def require_translator(self) -> None:
        """Refuses a network that has no encoder or no decoder.

        Raises:
            ConfigError: Naming the layers that are missing.
        """
        for name in ("num_encoder_layers", "num_decoder_layers"):
            layers = getattr(self, name)
            require(layers > 0, name, "at least 1 to translate", layers)

    @property
    def heads_dim(self) -> int:
        """Width of all attention heads together."""
        return self.model_dim if self.attention_dim is None else self.attention_dim

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.heads_dim // self.num_heads

    def padded(self, vocab_size: int) -> int:
        """Returns the embedding rows for a vocabulary: its size rounded up to `vocab_multiple`."""
        return -(-vocab_size // self.vocab_multiple) * self.vocab_multiple

    def never_produced(self, others: Iterable[int] = ()) -> list[int]:
        """Returns the target ids of no translation, in order: padding, BOS, decoder start, and `others`."""
        return sorted({self.pad_id, self.bos_id, self.decoder_start_id, *others} - {self.eos_id})

    def to_dict(self) -> dict[str, object]:
        """Returns plain values, for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> Self:
        """Returns the configuration that a dictionary names, with fields of this release or of earlier ones.

        Raises:
            ConfigError: If a key is unknown or missing, or a value cannot work.
        """
        values = current_fields(values)
        fields = {field.name: field for field in dataclasses.fields(cls)}
        require_known(values, fields)
        for name in ("source_vocab_size", "target_vocab_size"):
            require_given(name in values, name)
        return cls(**values)  # type: ignore[arg-type]


def current_fields(values: Mapping[str, object]) -> dict[str, object]:
    """Returns the values with former fields replaced; a present field keeps a value of its own."""
    current = dict(values)
    for former, fields in FORMER_FIELDS.items():
        if former in current:
            value = current.pop(former)
            require_flag(former, value)
            current = dict.fromkeys(fields, value) | current
    return current


def preset(name: str, **overrides: object) -> TransformerConfig:
    """Returns the configuration that a preset names, with some of its values replaced.

    Args:
        name: A key of PRESETS.
        overrides: Fields of TransformerConfig; the vocabulary sizes are needed where the preset
            has none.

    Raises:
        ConfigError: If the name is unknown or the result cannot work.
    """
    require_choice("preset", name, tuple(PRESETS))
    return TransformerConfig.from_dict({**PRESETS[name], **current_fields(overrides)})
