"""CTranslate2 models with random weights, of every kind that its specification has."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from ctranslate2.specs.transformer_spec import TransformerDecoderSpec, TransformerEncoderSpec, TransformerSpec

PIECES = ["<pad>", "<s>", "</s>", "<unk>", *map(chr, range(ord("a"), ord("z") + 1))]
NEVER = ("<pad>", "<blank>", "<s>")
DIM, HEADS, FFN, BUCKETS, POSITIONS = 24, 4, 40, 8, 40


def random_spec(
    encoder: Mapping[str, object] = {},
    decoder: Mapping[str, object] = {},
    *,
    width: int = DIM,
    key_value_heads: int = HEADS,
    bias: bool = True,
    output_bias: bool = True,
    source: Sequence[str] = PIECES,
    target: Sequence[str] = PIECES,
    table: np.ndarray | None = None,
    tie: Sequence[str] = (),
    **both: object,
) -> TransformerSpec:
    """A specification of 3 + 2 layers, all of whose numbers are random.

    Args:
        encoder: Options of TransformerEncoderSpec.
        decoder: Options of TransformerDecoderSpec.
        width: Width of all heads together.
        key_value_heads: Heads of keys and values.
        bias: Whether the linear layers of encoder and decoder have one.
        output_bias: Whether the projection onto the vocabulary has one.
        source: Source vocabulary.
        target: Target vocabulary.
        table: Position encodings.
        tie: `source`, `output`: matrices that are the target embedding.
        both: Options of both.
    """
    spec = TransformerSpec(
        TransformerEncoderSpec(3, HEADS, **{**both, **encoder}),
        TransformerDecoderSpec(2, HEADS, **{**both, **decoder}),
    )
    random = np.random.default_rng(1)
    inner = width // HEADS * key_value_heads
    shapes = {"self_attention/linear_0": (width + 2 * inner, DIM), "self_attention/linear_1": (DIM, width)}
    shapes |= {"attention/linear_0": (width, DIM), "attention/linear_1": (2 * inner, DIM)}
    shapes |= {"attention/linear_2": (DIM, width), "ffn/linear_0": (FFN, DIM), "ffn/linear_1": (DIM, FFN)}
    shapes |= {"ffn/linear_0_noact": (FFN, DIM), "decoder/projection": (len(target), DIM)}
    shapes |= {"encoder/embeddings_0": (len(source), DIM), "decoder/embeddings": (len(target), DIM)}

    def draw(*shape: int) -> np.ndarray:
        return random.normal(0, 0.4, shape).astype(np.float32)

    def fill(layer: object, name: str, value: object) -> None:
        scope, _, leaf = name.rpartition("/")
        shape = next((shapes[end] for end in shapes if ("/" + scope).endswith("/" + end)), None)
        found = {
            "weight": lambda: draw(*shape),
            "bias": lambda: draw(shape[0]),
            "gamma": lambda: 1 + draw(DIM),
            "beta": lambda: draw(DIM),
            "relative_attention_bias": lambda: draw(BUCKETS, HEADS),
            "relative_position_keys": lambda: draw(7, width // HEADS),
            "relative_position_values": lambda: draw(7, width // HEADS),
            "relative_attention_max_distance": lambda: np.dtype("int32").type(12),
            "encodings": lambda: table,
        }
        if (
            leaf in found
            and (leaf != "bias" or (bias and shape))
            and (leaf != "encodings" or table is not None)
        ):
            setattr(layer, leaf, found[leaf]())

    spec._visit(fill)
    for stack in (spec.encoder, spec.decoder):
        for layer in stack.layer[1:]:
            if hasattr(layer.self_attention, "relative_attention_bias"):
                first = stack.layer[0].self_attention.relative_attention_bias
                layer.self_attention.relative_attention_bias = first
    if "output" not in tie:
        spec.decoder.projection.weight *= 2
    if output_bias:
        shift = draw(len(target))
        shift[[target.index(piece) for piece in NEVER if piece in target]] = -50
        shift[target.index("</s>")] += 3  # most sentences end before the limit
        spec.decoder.projection.bias = shift
    if "source" in tie:
        spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight
    if "output" in tie:
        spec.decoder.projection.weight = spec.decoder.embeddings.weight
    return spec


def save(
    spec: TransformerSpec,
    folder: Path,
    *,
    quantization: str | None = None,
    source: Sequence[str] = PIECES,
    target: Sequence[str] = PIECES,
    **config: object,
) -> Path:
    """Writes the model folder with ctranslate2's own writer."""
    spec.register_source_vocabulary(list(source))
    spec.register_target_vocabulary(list(target))
    for name, value in config.items():
        spec.config.add_attribute(name, value)
    spec.validate()
    spec.optimize(quantization)
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))
    return folder
