"""Networks read from CTranslate2's files give its tokens, in every variant that can be read."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import ctranslate2
import numpy as np
import pytest
from ctranslate2.converters.transformers import _MODEL_LOADERS
from transformers import PreTrainedModel

from model.checkpoint.importing.formats.ctranslate2_folder import read_pieces
from model.checkpoint.importing.formats.ctranslate2_network import BinaryModel, Network
from model.checkpoint.importing.vocabulary import SpecialTokens, Vocabularies, arrange
from model.decode_request import DecodeOptions, DecodeRequest
from model.decoding.factory import torch_engine
from model.network.transformer import Transformer
from tests.model.checkpoint.importing import hugging_face_folders as families
from tests.model.checkpoint.importing.ctranslate2_models import DIM, POSITIONS, random_spec, save

STEPS = 36
LENGTHS = (1, 1, 2, 3, 4, 5, 7, 9, 12, 16, 20)
LEARNED = np.random.default_rng(3).normal(0, 0.4, (POSITIONS, DIM)).astype(np.float32)
VARIANTS: Mapping[str, dict[str, object]] = {
    "pre-norm": {},
    "post-norm": {"pre_norm": False},
    "no final norm": {"no_final_norm": True},
    "root mean square": {"rms_norm": True},
    "gated": {"ffn_glu": True, "activation": 2},
    "GELU": {"activation": 3},
    "GELU by tanh": {"activation": 1},
    "embedding norm": {"layernorm_embedding": True},
    "relative": {"relative_attention_bias": True},
    "relative vectors": {"relative_position": True},
    "rotary": {"rotary_dim": 0},
    "rotary by halves": {"rotary_dim": 0, "rotary_interleave": False},
    "no bias": {"bias": False},
    "wide heads": {"width": 48},
    "wide heads and their scale": {"width": 48, "head_dim": 12},
    "grouped queries": {"key_value_heads": 2, "num_heads_kv": 2},
    "multi-query": {"key_value_heads": 1, "multi_query_attention": True},
    "grouped rotary": {"key_value_heads": 2, "num_heads_kv": 2, "rotary_dim": 0, "rotary_interleave": False},
    "all tied": {"tie": ("source", "output")},
    "embeddings tied": {"tie": ("source",)},
    "decoder tied": {"tie": ("output",)},
    "learned positions": {"table": LEARNED},
    "T5": {
        "rms_norm": True,
        "relative_attention_bias": True,
        "bias": False,
        "ffn_glu": True,
        "activation": 1,
    },
}
SEARCHES: Sequence[tuple[dict[str, object], dict[str, object]]] = [
    ({"beam_size": 1, "length_penalty": 0}, {"strategy": "greedy"}),
    (
        {"beam_size": 4, "length_penalty": 0},
        {"strategy": "beam", "beam_size": 4, "length_penalty": 0.0, "stop": "first"},
    ),
    (
        {"beam_size": 5, "length_penalty": 0.6},
        {"strategy": "beam", "beam_size": 5, "length_penalty": 0.6, "stop": "count"},
    ),
]
GREEDY = SEARCHES[:1]


def network_of(folder: Path) -> tuple[Transformer, Vocabularies]:
    """Our network and ids of a folder."""
    read = Network(BinaryModel(folder / "model.bin"), None)
    zero = read.starts_from_zero
    options = json.loads((folder / "config.json").read_text())
    unk, bos, eos, start = (options[f"{role}_token"] for role in ("unk", "bos", "eos", "decoder_start"))
    tokens = SpecialTokens(unk=unk, bos=bos, eos=eos, start=start)
    sides = arrange(*read_pieces(folder), tokens, starts_from_zero=zero, where=folder)
    config = read.config(sides)
    tensors = read.tensors(config, sides)
    network = Transformer(config).eval()
    weights = {name: tensor().torch().float() for name, tensor in tensors.items()}
    assert not network.load_state_dict(weights, strict=False).unexpected_keys
    network.tie_weights()
    return network, sides


def assert_same_tokens(folder: Path, searches: Sequence[tuple[dict[str, object], dict[str, object]]]) -> None:
    """Searches give CTranslate2's tokens, greedy search its scores too, for sentences of several lengths.

    Sentences that a beam does not end are left out: at the limit, CTranslate2 ranks them among the finished.
    """
    network, sides = network_of(folder)
    source, target = sides.source.pieces, sides.target.pieces
    random = np.random.default_rng(0)
    texts = [[*(source[i] for i in random.integers(4, 29, n)), "</s>"] for n in LENGTHS]
    translator = ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)
    common = {"max_decoding_length": STEPS, "min_decoding_length": 0}
    for theirs, ours in searches:
        expected = translator.translate_batch(texts, **common, **theirs, return_scores=True)
        limits = {"max_length": STEPS, "suppress_ids": list(sides.suppressed)}
        options = DecodeOptions.from_dict(limits | ours)
        requests = [DecodeRequest(tuple(map(source.index, text)), options) for text in texts]
        results = torch_engine(network).decode(requests)
        found = [[target[id_] for id_ in result[0].token_ids] for result in results]
        wanted = [result.hypotheses[0] for result in expected]
        compared = [i for i, text in enumerate(wanted) if len(text) < STEPS or ours["strategy"] == "greedy"]
        assert len(compared) > 2
        assert [found[i] for i in compared] == [wanted[i] for i in compared]
        if ours["strategy"] == "greedy":
            scores = [result[0].log_probability for result in results]
            assert scores == pytest.approx([result.scores[0] for result in expected], abs=1e-3)


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_every_variant_gives_the_tokens_of_ctranslate2(variant: Mapping[str, object], tmp_path: Path) -> None:
    assert_same_tokens(save(random_spec(**variant), tmp_path / "model"), GREEDY)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "quantization", ["float16", "bfloat16", "int16", "int8_float32", "int8_float16", "int8_bfloat16", "int8"]
)
def test_every_number_type_gives_the_tokens_of_ctranslate2(quantization: str, tmp_path: Path) -> None:
    spec = random_spec(tie=("source", "output"))
    assert_same_tokens(save(spec, tmp_path / "model", quantization=quantization), GREEDY)


def converted(model: PreTrainedModel, folder: Path) -> Path:
    """A model of transformers as CTranslate2's converter writes it, with numbers for pieces."""
    config = model.config
    config.normalize_before, config.normalize_embedding = True, True  # as older configurations of mBART say
    spec = _MODEL_LOADERS[type(config).__name__].get_model_spec(model)
    pieces = [str(i) for i in range(config.vocab_size - (config.model_type == "marian"))]
    roles = {
        "<s>": getattr(config, "bos_token_id", None),
        "</s>": config.eos_token_id,
        "<pad>": config.pad_token_id,
    }
    for piece, id_ in roles.items():
        if id_ is not None and id_ < len(pieces):
            pieces[id_] = piece
    pieces[3] = "<unk>"
    if config.model_type != "marian":
        spec.decoder.projection.bias = np.zeros(len(pieces), np.float32)
        spec.decoder.projection.bias[[pieces.index("<pad>"), 0]] -= 50  # never produced
    start = config.decoder_start_token_id
    first = pieces[start] if start < len(pieces) else "</s>"
    return save(spec, folder, source=pieces, target=pieces, decoder_start_token=first)


@pytest.mark.parametrize(
    "make",
    [
        partial(families.marian, activation_function="swish"),
        partial(families.marian, share_encoder_decoder_embeddings=True, scale_embedding=True),
        partial(families.m2m, activation_function="relu", scale_embedding=True),
        partial(families.mbart, activation_function="gelu", tie_word_embeddings=False),
        partial(families.t5, feed_forward_proj="gated-gelu", tie_word_embeddings=False),
        partial(families.t5, feed_forward_proj="relu", relative_attention_num_buckets=10),
    ],
    ids=["OPUS-MT", "OPUS-MT, scaled", "NLLB", "mBART-50", "T5 1.1", "T5"],
)
def test_converted_models_of_transformers_give_the_same_tokens(
    make: Callable[[Path], PreTrainedModel], tmp_path: Path
) -> None:
    assert_same_tokens(converted(make(tmp_path), tmp_path / "converted"), SEARCHES)
