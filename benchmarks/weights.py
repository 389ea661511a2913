"""The weights that all engines share: random networks in the shapes of models that are in use."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from model.checkpoint.card import ModelCard
from model.checkpoint.folder import save_checkpoint
from model.checkpoint.manifest import checkpoint_folders
from model.config import TransformerConfig, preset
from model.decode_request import DecodeOptions
from model.network.layers import FeedForward
from model.network.transformer import Transformer
from model.text.tokenizer import SETTINGS_FILE, SHARED_FILE

(EMBEDDED,) = checkpoint_folders(Path(__file__).parents[1] / "checkpoints")
FIRST_WORD = 265
"""First id of a word in the embedded tokenizer, after special tokens, tags and bytes."""

_LONGEST = 256
_NEVER = -1e9
# Below the score of any learnt piece: no text is ever cut into the made-up words.
_UNUSED_SCORE = -100.0
# Factors on the initial weights, so that tokens differ from step to step and from source to source.
_FEED_FORWARD_GAIN, _ATTENTION_GAIN = 10.0, 0.3


def _shape(preset_name: str, vocab_size: int, **overrides: object) -> TransformerConfig:
    """A preset with what Marian fixes, which every engine can hold: post-norm and one vocabulary."""
    sizes = {"source_vocab_size": vocab_size, "target_vocab_size": vocab_size}
    return preset(preset_name, **{**sizes, "norm_position": "post", "final_norm": False, **overrides})


SHAPES: Mapping[str, TransformerConfig] = {
    "tiny": _shape(
        "base", 8_000, model_dim=16, num_heads=2, num_encoder_layers=2, num_decoder_layers=2, ffn_dim=32
    ),
    "small": _shape("small", 8_000),
    "base": _shape("base", 32_000),
    "opus-mt": _shape("base", 58_000, activation="silu"),
    "nllb-600m": _shape(
        "base",
        256_000,
        model_dim=1024,
        num_heads=16,
        num_encoder_layers=12,
        num_decoder_layers=12,
        ffn_dim=4096,
        norm_position="pre",
        final_norm=True,
    ),
    "t5-small": _shape(
        "base",
        32_000,
        positions="relative",
        norm_position="pre",
        final_norm=True,
        norm_form="root_mean_square",
        norm_bias=False,
        attention_bias=False,
        ffn_bias=False,
        scale_embeddings=False,
        attention_scale=1.0,
        logit_scale=512**-0.5,
    ),
    "firefox": _shape(
        "base",
        32_000,
        model_dim=256,
        num_decoder_layers=2,
        ffn_dim=1536,
        decoder_memory="ssru",
    ),
}
"""The last ones are the shapes of models that others publish."""


def untrained_network(config: TransformerConfig, seed: int) -> Transformer:
    """A network as training would begin with it."""
    torch.manual_seed(seed)
    return Transformer(config)


def endless_network(config: TransformerConfig, seed: int) -> Transformer:
    """A network that never ends a sentence and writes words only, so that every translation has full length.

    The output bias forbids EOS and all that is no word, which costs every engine the same addition.
    """
    network = untrained_network(replace(config, output_bias=True), seed).eval()
    with torch.no_grad():
        network.output.bias[:FIRST_WORD] = _NEVER
        for name, linear in network.named_modules():
            if name.endswith(("attention.output", "cross.output")):
                linear.weight *= _ATTENTION_GAIN
        for block in (part for part in network.modules() if isinstance(part, FeedForward)):
            _mix(block)
    return network


def _mix(block: FeedForward) -> None:
    """Make a feed-forward block turn every token into quite another one.

    As initialised, a network adds nearly the same vector to all tokens, and tied embeddings then repeat one
    token endlessly: equal translations would prove little. relu(x) - relu(-x) = x adds no constant.
    """
    half = block.input.out_features // 2
    block.input.weight[half:] = -block.input.weight[:half]
    block.output.weight[:, half:] = -block.output.weight[:, :half]
    block.output.weight *= _FEED_FORWARD_GAIN


def random_checkpoint(folder: Path, shape: str, seed: int) -> Path:
    """Write a checkpoint of an endless network with a real tokenizer, and return its folder."""
    network = endless_network(SHAPES[shape], seed)
    tokenizer = folder.with_name(f"{folder.name}-tokenizer")
    resized_tokenizer(tokenizer, SHAPES[shape].target_vocab_size)
    save_checkpoint(
        folder,
        config=network.config,
        weights=network.state_dict(),
        card=ModelCard(
            name=shape,
            version="random",
            pairs=(("en", "fr"), ("fr", "en")),
            max_source_length=_LONGEST,
            max_target_length=_LONGEST,
            decoding=DecodeOptions(strategy="greedy"),
        ),
        tokenizer_folder=tokenizer,
        provenance={"data": "none: random weights of benchmarks/weights.py", "seed": seed},
    )
    shutil.rmtree(tokenizer)
    return folder


def resized_tokenizer(folder: Path, vocab_size: int) -> None:
    """Write the embedded checkpoint's tokenizer without its rarest pieces, or with made-up words added."""
    folder.mkdir(parents=True, exist_ok=True)
    model = ModelProto()
    model.ParseFromString((EMBEDDED / SHARED_FILE).read_bytes())
    del model.pieces[vocab_size:]
    for number in range(len(model.pieces), vocab_size):
        model.pieces.add(piece=f"\u2581w{number}x", score=_UNUSED_SCORE)
    model.trainer_spec.vocab_size = vocab_size
    (folder / SHARED_FILE).write_bytes(model.SerializeToString())
    shutil.copyfile(EMBEDDED / SETTINGS_FILE, folder / SETTINGS_FILE)
