"""Hugging Face models with our weights, and their folders: Marian's if post-norm, Pegasus's if pre-norm.

The features between the blocks of a network can be renumbered without changing its output. So sinusoids that
alternate (sine, cosine, sine, …) become Marian's (all sines, then all cosines) without retraining.

    marian    MarianMTModel                     presets base, big, postnorm, d2l
    pegasus   PegasusForConditionalGeneration   preset small

Both are the encoder-decoder of Vaswani et al. with all sines before the cosines; neither has learned,
relative or rotary positions. A bias that our network lacks is filled with zeros.

The tokenizer is Hugging Face's MarianTokenizer over our SentencePiece models. The first word of a text is the
target language, as in `>>fr<<`; our tags take that form in its vocabulary, with their ids.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor
from transformers import (
    GenerationConfig,
    MarianConfig,
    MarianMTModel,
    PegasusConfig,
    PegasusForConditionalGeneration,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.utils import logging

from model.checkpoint.folder import Checkpoint
from model.checkpoint.importing.formats.hugging_face_network import BART, FINAL_BIAS
from model.checkpoint.importing.parameters import Parameter
from model.checkpoint.manifest import write_json
from model.config import TransformerConfig
from model.network.transformer import Transformer
from model.validators import require, require_choice

_WRITES_STREAM = (
    "attention.output.weight",
    "attention.output.bias",
    "cross.output.weight",
    "cross.output.bias",
    "feed_forward.output.weight",
    "feed_forward.output.bias",
    "norm.weight",
    "norm.bias",
)
_READS_STREAM = ("tokens.weight", "query.weight", "key_value.weight", "feed_forward.input.weight")
_OUTPUT = "output.weight"

_ALIKE: Mapping[str, object] = {
    "norm_form": "variance",
    "norm_epsilon": 1e-5,
    "positions": "sinusoidal",
    "sinusoid_offset": 0,
    "sinusoid_endpoint": False,
    "embedding_norm": False,
    "attention_dim": None,
    "attention_scale": None,
    "gated_ffn": False,
    "decoder_memory": "attention",
    "logit_scale": 1.0,
}


@dataclass(frozen=True)
class _Architecture:
    """A model of Hugging Face: its classes, the configuration that it needs, and our presets that have it."""

    model: type[PreTrainedModel]
    config: type[PreTrainedConfig]
    fixed: Mapping[str, object]
    presets: str


_ARCHITECTURES: Mapping[str, _Architecture] = {
    "marian": _Architecture(
        MarianMTModel,
        MarianConfig,
        {"norm_position": "post", "final_norm": False, **_ALIKE},
        "presets base, big, postnorm and d2l",
    ),
    "pegasus": _Architecture(
        PegasusForConditionalGeneration,
        PegasusConfig,
        {"norm_position": "pre", "final_norm": True, "tie": "all", **_ALIKE},
        "preset small",
    ),
}


def suitable_architecture(config: TransformerConfig) -> str:
    """Returns the architecture with the network's norm position, which may lack other features of it."""
    return "marian" if config.norm_position == "post" else "pegasus"


def check_holds(architecture: str, config: TransformerConfig) -> None:
    """Refuses a configuration that an architecture lacks.

    Args:
        architecture: `marian` or `pegasus`.
        config: Configuration of our network.

    Raises:
        ConfigError: With the first field that must differ.
    """
    require_choice("architecture", architecture, tuple(_ARCHITECTURES))
    theirs = _ARCHITECTURES[architecture]
    for field, needed in theirs.fixed.items():
        value = getattr(config, field)
        require(value == needed, field, f"{needed!r} for {architecture} (as in {theirs.presets})", value)
    for field in ("num_encoder_layers", "num_decoder_layers"):
        value = getattr(config, field)
        require(value > 0, field, f"at least 1 for {architecture}", value)


@torch.no_grad()
def sines_first(network: Transformer) -> Transformer:
    """Returns an equivalent network with all sines of its positions before the cosines.

    Args:
        network: A network with sinusoidal positions; returned unchanged if its sines come first already.
    """
    config = network.config
    if config.sinusoid_layout == "halves":
        return network
    order = torch.cat([torch.arange(0, config.model_dim, 2), torch.arange(1, config.model_dim, 2)])
    renumbered = Transformer(replace(config, sinusoid_layout="halves"))
    tensors = {name: _renumber(name, tensor, order) for name, tensor in network.state_dict().items()}
    renumbered.load_state_dict(tensors)
    return renumbered.train(network.training)


def _renumber(name: str, tensor: Tensor, order: Tensor) -> Tensor:
    if name.endswith(_WRITES_STREAM):
        return tensor[order]
    if name.endswith(_READS_STREAM) or name == _OUTPUT:
        return tensor[:, order]
    return tensor


def hugging_face_model(
    network: Transformer, architecture: str, *, max_positions: int | None = None
) -> PreTrainedModel:
    """Returns a Hugging Face model equivalent to a network, in evaluation mode.

    Args:
        network: An encoder-decoder.
        architecture: `marian` or `pegasus`.
        max_positions: Longest sequence that it must accept; None uses the configuration's.

    Raises:
        ConfigError: With the field that the architecture cannot represent.
    """
    check_holds(architecture, network.config)
    network = sines_first(network)
    theirs = _ARCHITECTURES[architecture].model(_their_config(architecture, network.config, max_positions))
    filled = theirs.state_dict()
    for name, tensor in filled.items():
        if name.endswith("bias"):  # one that our network lacks stays zero
            tensor.zero_()
    for name, tensor in network.state_dict().items():
        parameter = Parameter.of(name)
        names = _names(parameter)
        for theirs_name, part in zip(names, tensor.chunk(len(names)), strict=True):
            place = filled[theirs_name]
            place.copy_(part[: place.shape[-2] if part.dim() == 2 else place.shape[-1]])
    theirs.eval()
    return theirs


def _names(parameter: Parameter) -> list[str]:
    """Returns the names of a parameter's tensors, one below the other."""
    if parameter.module == "output" and parameter.kind == "bias":
        return [FINAL_BIAS]
    return parameter.names(
        BART, tokens=f"model.{parameter.stack}.embed_tokens.weight", output="lm_head.weight"
    )


def _their_config(
    architecture: str, config: TransformerConfig, max_positions: int | None
) -> PreTrainedConfig:
    values: dict[str, object] = {
        "vocab_size": config.source_vocab_size,
        "d_model": config.model_dim,
        "encoder_layers": config.num_encoder_layers,
        "decoder_layers": config.num_decoder_layers,
        "encoder_attention_heads": config.num_heads,
        "decoder_attention_heads": config.num_heads,
        "encoder_ffn_dim": config.ffn_dim,
        "decoder_ffn_dim": config.ffn_dim,
        "activation_function": {"gelu_tanh": "gelu_new"}.get(config.activation, config.activation),
        "max_position_embeddings": max_positions or config.max_positions,
        "scale_embedding": config.scale_embeddings,
        "dropout": config.residual_dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.ffn_dropout,
        "pad_token_id": config.pad_id,
        "eos_token_id": config.eos_id,
        "bos_token_id": None,
        "decoder_start_token_id": config.decoder_start_id,
        "forced_eos_token_id": None,
    }
    if architecture == "marian":
        values |= {
            "decoder_vocab_size": config.target_vocab_size,
            "share_encoder_decoder_embeddings": config.tie in ("embeddings", "all"),
            "tie_word_embeddings": config.tie in ("decoder", "all"),
        }
    return _ARCHITECTURES[architecture].config.from_dict(values)


def write_hugging_face(checkpoint: Checkpoint, folder: Path, architecture: str, quantization: str) -> None:
    """Writes a model and a tokenizer that `from_pretrained` loads.

    Args:
        checkpoint: The checkpoint to export.
        folder: An empty folder.
        architecture: `marian` or `pegasus`.
        quantization: `float32`, `float16` or `bfloat16`.

    Raises:
        ConfigError: With the field that the architecture cannot represent.
    """
    card, config = checkpoint.card, checkpoint.config
    longest = max(config.max_positions, card.max_source_length, card.max_target_length)
    model = hugging_face_model(checkpoint.network(), architecture, max_positions=longest + 1)
    # With these, `generate` makes our greedy translations; callers may set beams.
    model.generation_config = GenerationConfig(
        max_length=card.max_target_length + 1,  # theirs counts the start token
        num_beams=1,
        do_sample=False,
        pad_token_id=config.pad_id,
        eos_token_id=config.eos_id,
        decoder_start_token_id=config.decoder_start_id,
        suppress_tokens=config.never_produced(checkpoint.tokenizer.target_tag_ids),
    )
    was_shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        model.to(getattr(torch, quantization)).save_pretrained(folder)
    finally:
        if was_shown:
            logging.enable_progress_bar()
    _write_tokenizer(checkpoint, folder)


def _write_tokenizer(checkpoint: Checkpoint, folder: Path) -> None:
    tokenizer, config = checkpoint.tokenizer, checkpoint.config
    source_model, target_model = tokenizer.model_files
    shutil.copyfile(checkpoint.folder / source_model, folder / "source.spm")
    shutil.copyfile(checkpoint.folder / target_model, folder / "target.spm")
    pieces = tokenizer.source_pieces(range(config.source_vocab_size))
    for language, id_ in tokenizer.language_tags.items():
        pieces[id_] = f">>{language}<<"
    _write_vocabulary(folder / "vocab.json", pieces)
    if not tokenizer.is_shared:
        _write_vocabulary(folder / "target_vocab.json", tokenizer.pieces(range(config.target_vocab_size)))
    settings: dict[str, object] = {
        "tokenizer_class": "MarianTokenizer",
        "unk_token": pieces[config.unk_id],
        "eos_token": pieces[config.eos_id],
        "pad_token": pieces[config.pad_id],
        "model_max_length": checkpoint.card.max_source_length,
        "separate_vocabs": not tokenizer.is_shared,
    }
    write_json(folder / "tokenizer_config.json", settings)


def _write_vocabulary(path: Path, pieces: Sequence[str]) -> None:
    write_json(path, {piece: id_ for id_, piece in enumerate(pieces)})
