"""The same weights give the same states as torch.nn.Transformer."""

import pytest
from torch import nn
from torch.testing import assert_close

from model.network.transformer import Transformer
from tests.model.reference_networks import copy_torch
from tests.model.tiny_networks import ids, randomised, tiny_config, tiny_network

PAD = 0


def torch_transformer(network: Transformer) -> nn.Transformer:
    config = network.config
    return nn.Transformer(
        d_model=config.model_dim,
        nhead=config.num_heads,
        num_encoder_layers=config.num_encoder_layers,
        num_decoder_layers=config.num_decoder_layers,
        dim_feedforward=config.ffn_dim,
        dropout=0.0,
        activation=config.activation,
        layer_norm_eps=config.norm_epsilon,
        batch_first=True,
        norm_first=config.norm_position == "pre",
        bias=config.ffn_bias,
    )


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")  # torch's own remark on its pre-norm encoder
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_position", ["pre", "post"])
def test_states_are_those_of_torchs_transformer(norm_position: str, activation: str, bias: bool) -> None:
    ours = tiny_network(
        norm_position=norm_position,
        activation=activation,
        final_norm=True,
        attention_bias=bias,
        ffn_bias=bias,
        norm_bias=bias,
    )
    theirs = randomised(torch_transformer(ours)).train()  # evaluation would take a nested-tensor path
    copy_torch(ours, theirs)
    source_NS, target_NT = ids(3, 7), ids(3, 11)
    source_NS[1, 4:] = PAD
    hidden_NS = source_NS == PAD
    expected = theirs(
        ours.source_embedding(source_NS),
        ours.target_embedding(target_NT),
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(11),
        src_key_padding_mask=hidden_NS,
        memory_key_padding_mask=hidden_NS,
        tgt_is_causal=True,
    )
    actual = ours.decode(target_NT, ours.encode(source_NS))
    assert_close(actual, expected, atol=1e-5, rtol=1e-5)


def test_an_own_embedding_and_output_complete_it() -> None:
    """Logits are output(decoder states), embeddings are scaled tokens plus positions."""
    network = tiny_network(output_bias=True)
    source_NS, target_NT = ids(2, 7), ids(2, 11)
    states = network.decode(target_NT, network.encode(source_NS))
    assert_close(network(source_NS, target_NT), states @ network.output.weight.T + network.output.bias)
    config, embedding = tiny_config(), network.source_embedding
    added = embedding.added_positions(7, source_NS.device)
    expected = config.model_dim**0.5 * embedding.tokens.weight[source_NS] + added
    assert_close(embedding(source_NS), expected)
