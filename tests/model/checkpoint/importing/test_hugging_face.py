"""An imported model of Hugging Face gives its logits and the tokens of its `generate`, by every search."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from transformers import PreTrainedModel

from model.checkpoint.folder import Checkpoint, load_checkpoint
from model.checkpoint.importing.importer import import_model
from model.decode_request import DecodeRequest
from model.decoding.engine import DecodingEngine
from model.decoding.factory import native_factory, torch_factory
from model.native.binding import runnable_variants
from model.network.transformer import Transformer
from tests.model.checkpoint.importing import hugging_face_folders as folders
from tests.model.native_library import HAS_COMPILER

Values = Mapping[str, object]
MAX_LENGTH = 14
GREEDY: Values = {"num_beams": 1}
BEAM: Values = {"num_beams": 4}
SEPARATE = {"share_encoder_decoder_embeddings": False}
GATED = {
    "feed_forward_proj": "gated-gelu",
    "tie_word_embeddings": False,
    "d_kv": 9,
    "layer_norm_epsilon": 1e-3,
}

CASES: list[tuple[Callable[..., PreTrainedModel], Values, Values]] = [
    (folders.marian, {"activation_function": "swish", "scale_embedding": True}, BEAM),
    (
        folders.marian,
        {"activation_function": "relu"},
        BEAM | {"renormalize_logits": True, "length_penalty": 0.6},
    ),
    (
        folders.marian,
        {"activation_function": "gelu"},
        BEAM | {"early_stopping": True, "no_repeat_ngram_size": 2},
    ),
    (folders.marian, {**SEPARATE, "decoder_vocab_size": 67, "tie_word_embeddings": False}, BEAM),
    (folders.marian, {**SEPARATE, "decoder_vocab_size": 67}, BEAM | {"early_stopping": "never"}),
    (folders.m2m, {}, BEAM | {"length_penalty": 2.0}),
    (folders.m2m, {"scale_embedding": False, "activation_function": "gelu"}, BEAM | {"early_stopping": True}),
    (folders.mbart, {}, BEAM | {"num_beams": 5, "early_stopping": True}),
    (folders.mbart, {"scale_embedding": True, "activation_function": "relu"}, BEAM | {"min_length": 6}),
    (folders.marian, {}, BEAM | {"min_new_tokens": 6}),
    (folders.m2m, {}, BEAM | {"min_new_tokens": 7, "min_length": 3}),
    (folders.pegasus, {"activation_function": "relu"}, BEAM | {"length_penalty": 0.5}),
    (folders.t5, {}, BEAM),
    (folders.t5, GATED | {"relative_attention_num_buckets": 6}, BEAM),
    (folders.t5, {"feed_forward_proj": "gated-silu", "relative_attention_max_distance": 40}, BEAM),
    (folders.t5, {"family": "MT5"}, BEAM | {"early_stopping": True}),
]


def random_sources(checkpoint: Checkpoint, count: int) -> list[list[int]]:
    """Token ids of text, with the frame of the model's sentences."""
    generator = torch.Generator().manual_seed(3)
    source, target = checkpoint.card.pairs[0]
    frame = checkpoint.tokenizer.encode("", source_language=source, target_language=target)
    begin = len(frame) - len(checkpoint.tokenizer.settings.source_end)
    lengths = torch.randint(1, 12, (count,), generator=generator).tolist()
    return [
        [*frame[:begin], *torch.randint(6, 34, (length,), generator=generator).tolist(), *frame[begin:]]
        for length in lengths
    ]


def generated(model: PreTrainedModel, sources: Sequence[list[int]], **options: object) -> list[list[int]]:
    """The tokens of `generate`, without the decoder's start, EOS and what follows."""
    pad, eos = model.generation_config.pad_token_id, model.generation_config.eos_token_id
    longest = max(map(len, sources))
    source_NS = torch.tensor([[*ids, *[pad] * (longest - len(ids))] for ids in sources])
    rows = model.generate(
        input_ids=source_NS, attention_mask=(source_NS != pad).long(), max_length=MAX_LENGTH + 1, **options
    )
    return [row[1 : row.index(eos, 1) if eos in row[1:] else None] for row in rows.tolist()]


def engines(checkpoint: Checkpoint) -> dict[str, DecodingEngine]:
    never = checkpoint.tokenizer.target_tag_ids
    found = {"torch": torch_factory(checkpoint, "cpu", "float32").make()}
    if HAS_COMPILER and runnable_variants():
        native = native_factory(checkpoint.config, checkpoint.weights, "float32", never_produced=never)
        found["native"] = native.make()
    return found


@torch.inference_mode()
def assert_same_logits(
    ours: Transformer, theirs: PreTrainedModel, source_NS: Tensor, target_NT: Tensor
) -> None:
    expected = theirs(input_ids=source_NS, decoder_input_ids=target_NT).logits
    found = ours(source_NS, target_NT)
    is_produced_V = found[0, 0] > -1000  # the import rules other tokens out
    assert is_produced_V.sum() > 30
    produced = expected[..., : found.shape[-1]][..., is_produced_V]
    assert_close(found[..., is_produced_V], produced, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize(("family", "config", "generation"), CASES)
def test_tokens_are_those_of_generate(
    tmp_path: Path, family: Callable[..., PreTrainedModel], config: Values, generation: Values
) -> None:
    folder = tmp_path / "opus-mt-en-fr"
    model = family(folder, generation=generation, **config)
    import_model(folder, tmp_path / "imported")
    checkpoint = load_checkpoint(tmp_path / "imported")
    sources = random_sources(checkpoint, 30)
    assert_same_logits(checkpoint.network(), model, torch.tensor(sources[:1]), torch.tensor(sources[1:2]))
    start = checkpoint.tokenizer.target_prefix(*checkpoint.card.pairs[0])
    forced = {"forced_bos_token_id": start[0]} if start else {}
    for search in ({"strategy": "greedy"}, {}):
        theirs = generated(model, sources, **forced, **(GREEDY if search else {}))
        options = checkpoint.card.options({**search, "max_length": MAX_LENGTH - len(start)})
        asked = [
            DecodeRequest(tuple(ids), options, **({"start_ids": start} if start else {})) for ids in sources
        ]
        for name, engine in engines(checkpoint).items():
            ours = [list(result[0].token_ids) for result in engine.decode(asked)]
            expected = [ids[len(start) :] for ids in theirs]
            differing = [i for i, pair in enumerate(zip(ours, expected, strict=True)) if pair[0] != pair[1]]
            assert not differing, (name, search, len(differing), ours[differing[0]], expected[differing[0]])
        finished = sum(len(ids) < MAX_LENGTH for ids in theirs)
        assert finished > 6
