"""Separate, half tied and fully tied vocabularies, and rows added to fill a multiple."""

import pytest
import torch
from torch.testing import assert_close

from model.network.transformer import Transformer
from tests.model.tiny_networks import SOURCE_VOCAB, TARGET_VOCAB, ids, started, tiny_config, tiny_network

TIES = pytest.mark.parametrize("tie", ["none", "embeddings", "decoder", "all"])


def distinct_tensors(network: Transformer) -> int:
    weights = (network.source_embedding.tokens, network.target_embedding.tokens, network.output)
    return len({weight.weight.data_ptr() for weight in weights})


@pytest.mark.parametrize(("tie", "tensors"), [("none", 3), ("embeddings", 2), ("decoder", 2), ("all", 1)])
def test_tied_tensors_are_one_tensor(tie: str, tensors: int) -> None:
    assert distinct_tensors(tiny_network(tie=tie)) == tensors


@pytest.mark.parametrize(
    ("tie", "rows"), [("none", 23 + 29 + 29), ("embeddings", 29 + 29), ("decoder", 23 + 29), ("all", 29)]
)
def test_tied_tensors_are_counted_once(tie: str, rows: int) -> None:
    network = tiny_network(tie=tie)
    vocabulary = network.num_parameters() - network.num_parameters(embeddings=False)
    assert vocabulary == rows * network.config.model_dim


@pytest.mark.parametrize(("tie", "expected"), [("none", False), ("decoder", False), ("all", True)])
def test_source_tokens_teach_the_output_only_where_all_is_tied(tie: str, expected: bool) -> None:
    network = tiny_network(tie=tie)
    only_source_token, never_seen = 7, 9
    source_NS, target_NT = torch.full((1, 3), only_source_token), torch.full((1, 2), 5)
    network(source_NS, target_NT)[..., 5].sum().backward()
    assert network.source_embedding.tokens.weight.grad[only_source_token].any()
    assert not network.source_embedding.tokens.weight.grad[never_seen].any()
    shares = network.output.weight.grad is network.source_embedding.tokens.weight.grad
    assert shares is expected


def test_target_embedding_and_output_add_their_gradients() -> None:
    tied, separate = tiny_network(tie="decoder"), tiny_network(tie="none")
    separate.load_state_dict(tied.state_dict())
    source_NS, target_NT = ids(2, 5), ids(2, 6)
    for network in (tied, separate):
        network(source_NS, target_NT).square().mean().backward()
    both = separate.output.weight.grad + separate.target_embedding.tokens.weight.grad
    assert_close(tied.output.weight.grad, both, atol=1e-4, rtol=1e-4)


@TIES
@pytest.mark.parametrize("assign", [True, False])
def test_a_state_dict_comes_back_and_stays_tied(tie: str, assign: bool) -> None:
    """Assigning loads tensors from a file without a copy; it separates tied ones until they are tied anew."""
    network, other = tiny_network(tie=tie), Transformer(tiny_config(tie=tie)).eval()
    weights = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    other.load_state_dict(weights, assign=assign)
    other.tie_weights()
    assert distinct_tensors(other) == distinct_tensors(network)
    assert torch.equal(other(ids(2, 5), ids(2, 6)), network(ids(2, 5), ids(2, 6)))


@TIES
@torch.inference_mode()
def test_padded_ids_are_never_in_the_logits(tie: str) -> None:
    network = tiny_network(tie=tie, vocab_multiple=64, output_bias=True)
    assert network.output.weight.shape == (64, 16)
    assert network.target_embedding.tokens.weight.shape == (64, 16)
    network.output.weight[TARGET_VOCAB:] = 100.0
    network.output.bias[TARGET_VOCAB:] = 100.0
    source_NS, target_NT = ids(2, 5), ids(2, 6)
    assert network(source_NS, target_NT).shape == (2, 6, TARGET_VOCAB)
    state = started(network, network.encode(source_NS), width=3, capacity=1)
    assert network.decode_step(ids(2, 3), state).shape == (2, 3, TARGET_VOCAB)


@torch.inference_mode()
def test_rows_that_fill_a_multiple_change_no_logit() -> None:
    filled, exact = tiny_network(vocab_multiple=64), tiny_network()
    sizes = {"source_embedding.tokens": SOURCE_VOCAB, "target_embedding.tokens": TARGET_VOCAB}
    weights = filled.state_dict()
    for name, size in {**sizes, "output": TARGET_VOCAB}.items():
        weights[f"{name}.weight"] = weights[f"{name}.weight"][:size]
    exact.load_state_dict(weights)
    assert_close(filled(ids(2, 5), ids(2, 6)), exact(ids(2, 5), ids(2, 6)), atol=1e-6, rtol=0)
