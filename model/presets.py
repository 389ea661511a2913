"""Named configurations: the published sizes, and one for each of several well-known tutorials."""

from collections.abc import Mapping

from model.config import TransformerConfig, current_fields
from model.validators import require_choice

_VASWANI_BASE: dict[str, object] = {"residual_dropout": 0.1, "embedding_dropout": 0.1}
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
    "base": _VASWANI_BASE | {"tie": "all"},
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
