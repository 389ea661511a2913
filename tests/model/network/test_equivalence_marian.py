"""The same weights give the same logits as Hugging Face's Marian model."""

import pytest
import torch
from torch.testing import assert_close
from transformers.models.marian.configuration_marian import MarianConfig
from transformers.models.marian.modeling_marian import MarianMTModel

from model.config import TransformerConfig
from model.network.transformer import Transformer
from tests.model.reference_networks import copy_bart
from tests.model.tiny_networks import ids, randomised, started

VOCAB, EOS, PAD = 31, 0, 30


def marian(activation: str) -> MarianMTModel:
    config = MarianConfig(
        vocab_size=VOCAB,
        d_model=16,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=24,
        decoder_ffn_dim=24,
        activation_function=activation,
        max_position_embeddings=32,
        scale_embedding=True,
        pad_token_id=PAD,
        eos_token_id=EOS,
        bos_token_id=None,
        decoder_start_token_id=PAD,
        forced_eos_token_id=EOS,
    )
    network = MarianMTModel(config)
    positions = network.model.encoder.embed_positions.weight.clone()
    randomised(network)
    for stack in (network.model.encoder, network.model.decoder):
        stack.embed_positions.weight.data.copy_(positions)  # static: sinusoids, never trained
    network.final_logits_bias.normal_()
    return network


def ours_like(theirs: MarianMTModel) -> Transformer:
    config = TransformerConfig.from_dict(
        {
            "source_vocab_size": VOCAB,
            "target_vocab_size": VOCAB,
            "model_dim": 16,
            "num_heads": 2,
            "num_encoder_layers": 2,
            "num_decoder_layers": 2,
            "ffn_dim": 24,
            "activation": {"swish": "silu"}.get(name := theirs.config.activation_function, name),
            "sinusoid_layout": "halves",
            "output_bias": True,
            "tie": "all",
            "pad_id": PAD,
            "eos_id": EOS,
            "decoder_start_id": PAD,
        }
    )
    network = Transformer(config).eval()
    copy_bart(network, theirs)
    return network


@pytest.mark.parametrize("activation", ["swish", "relu", "gelu"])
@torch.inference_mode()
def test_logits_are_marians(activation: str) -> None:
    theirs = marian(activation)
    ours = ours_like(theirs)
    source_NS, target_NT = ids(3, 7), ids(3, 11)
    source_NS[2, 5:] = PAD
    target_NT[:, 0] = PAD
    expected = theirs(
        input_ids=source_NS, attention_mask=(source_NS != PAD).long(), decoder_input_ids=target_NT
    ).logits
    assert_close(ours(source_NS, target_NT), expected, atol=1e-4, rtol=1e-4)


@torch.inference_mode()
def test_marians_padding_as_start_token_is_seen_by_the_cached_step() -> None:
    theirs = marian("swish")
    ours = ours_like(theirs)
    source_NS = ids(2, 7)
    state = started(ours, ours.encode(source_NS), width=1, capacity=4)
    tokens, prefix = torch.full((2, 1), PAD), torch.full((2, 1), PAD)
    for _ in range(4):
        logits_NV = ours.decode_step(tokens, state)[:, 0]
        expected = theirs(input_ids=source_NS, decoder_input_ids=prefix).logits[:, -1]
        assert_close(logits_NV, expected, atol=1e-4, rtol=1e-4)
        tokens = logits_NV.argmax(-1, keepdim=True)
        prefix = torch.cat([prefix, tokens], -1)
