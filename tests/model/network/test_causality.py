"""What comes later never changes what came before; the encoder looks both ways."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from model.network.transformer import Transformer
from tests.model.tiny_networks import ids, tiny_network

LENGTH = 8
POSITIONS = pytest.mark.parametrize("positions", ["sinusoidal", "learned", "relative", "rotary"])
NORMS = pytest.mark.parametrize("norm_position", ["pre", "post"])


def changed(ids_NT: Tensor, position: int) -> Tensor:
    """Another token at one position."""
    other = ids_NT.clone()
    other[:, position] = 4 + (other[:, position] - 3) % 10
    return other


def assert_causal(network: Transformer, source_NS: Tensor | None) -> None:
    target_NT = ids(2, LENGTH)
    before = network(source_NS, target_NT)
    for position in range(LENGTH):
        after = network(source_NS, changed(target_NT, position))
        assert_close(after[:, :position], before[:, :position], atol=1e-6, rtol=0)
        moved = (after[:, position:] - before[:, position:]).abs().amax(-1)
        assert (moved > 1e-4).all(), "every position from the changed one on sees the change"


@POSITIONS
@NORMS
@torch.inference_mode()
def test_a_target_token_leaves_the_logits_before_it_alone(positions: str, norm_position: str) -> None:
    assert_causal(tiny_network(positions=positions, norm_position=norm_position), ids(2, 5))


@POSITIONS
def test_no_gradient_flows_back_from_earlier_logits(positions: str) -> None:
    """Training takes another attention path than evaluation; it must be as causal."""
    network = tiny_network(positions=positions, embedding_dropout=0.0, residual_dropout=0.0).train()
    embedded: list[Tensor] = []
    network.target_embedding.register_forward_hook(lambda *call: embedded.append(call[2].requires_grad_()))
    logits_NTV = network(ids(2, 5), ids(2, LENGTH))
    for position in range(LENGTH):
        (gradient,) = torch.autograd.grad(logits_NTV[:, position].square().sum(), embedded, retain_graph=True)
        seen_T = gradient.abs().sum((0, 2)) > 0
        assert seen_T.tolist() == [earlier <= position for earlier in range(LENGTH)]


@POSITIONS
@torch.inference_mode()
def test_the_encoder_looks_both_ways(positions: str) -> None:
    network, source_NS = tiny_network(positions=positions), ids(2, LENGTH)
    before = network.encode(source_NS).states_NSM
    for position in (0, LENGTH - 1):
        after = network.encode(changed(source_NS, position)).states_NSM
        assert ((after - before).abs().amax(-1) > 1e-5).all()


@POSITIONS
@torch.inference_mode()
def test_order_matters(positions: str) -> None:
    network, source_NS = tiny_network(positions=positions), ids(2, LENGTH)
    reversed_back = network.encode(source_NS.flip(1)).states_NSM.flip(1)
    assert not torch.allclose(reversed_back, network.encode(source_NS).states_NSM, atol=1e-3)
