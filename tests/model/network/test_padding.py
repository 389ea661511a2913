"""A sentence's numbers depend neither on padding, nor on the rest of its batch, nor on later tokens."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.testing import assert_close

from model.network.transformer import Transformer
from tests.model.tiny_networks import ids, started, tiny_network

PAD = 0
SOURCE_LENGTHS, TARGET_LENGTHS = (3, 7, 1), (11, 4, 6)
POSITIONS = pytest.mark.parametrize("positions", ["sinusoidal", "learned", "relative", "rotary"])
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
LENGTH = 8
NORMS = pytest.mark.parametrize("norm_position", ["pre", "post"])


def sentence(length: int, seed: int, padding: int = 0) -> Tensor:
    """One row of ids, padded on the right."""
    return pad(ids(1, length, seed=seed), (0, padding), value=PAD)


def batch(lengths: tuple[int, ...]) -> Tensor:
    """`sentence(length, seed)` with seeds 0, 1, 2…, padded to the longest."""
    longest = max(lengths)
    return torch.cat([sentence(n, seed, longest - n) for seed, n in enumerate(lengths)])


@POSITIONS
@NORMS
@torch.inference_mode()
def test_alone_or_in_a_batch(positions: str, norm_position: str) -> None:
    network = tiny_network(positions=positions, norm_position=norm_position, final_norm=True)
    together = network(batch(SOURCE_LENGTHS), batch(TARGET_LENGTHS))
    for row, (source, target) in enumerate(zip(SOURCE_LENGTHS, TARGET_LENGTHS, strict=True)):
        alone = network(sentence(source, row), sentence(target, row))
        assert_close(together[row : row + 1, :target], alone, atol=1e-5, rtol=1e-5)


@torch.inference_mode()
def test_padding_to_the_left_of_a_source_is_hidden_too() -> None:
    """Only its position tells where a token stands; distances alone do not change."""
    network = tiny_network(positions="relative", final_norm=True)
    shifted = pad(sentence(5, 0), (3, 0), value=PAD)
    expected = network.encode(sentence(5, 0)).states_NSM
    assert_close(network.encode(shifted).states_NSM[:, 3:], expected, atol=1e-5, rtol=1e-5)


def with_an_empty_row() -> Tensor:
    return torch.cat([sentence(5, 0), torch.full((1, 5), PAD)])


def assert_finite(network: Transformer, dtype: torch.dtype) -> None:
    source_NS, target_NT = with_an_empty_row(), ids(2, 4)
    logits = network(source_NS, target_NT)
    explicit, maps = network.forward_with_attention(source_NS, target_NT)
    state, seen = started(network, network.encode(source_NS), width=2, capacity=2), list[Tensor]()
    stepped = network.decode_step(ids(2, 2), state, attention=seen)
    for tensor in (logits, explicit, stepped, *seen, *maps.encoder, *maps.decoder, *maps.cross):
        assert tensor.dtype == dtype
        assert tensor.isfinite().all()


@POSITIONS
@DTYPES
@torch.inference_mode()
def test_a_fully_padded_row_gives_numbers(positions: str, dtype: torch.dtype) -> None:
    assert_finite(tiny_network(positions=positions).to(dtype), dtype)


@DTYPES
@torch.inference_mode()
def test_a_fully_padded_row_gives_numbers_to_the_standard_deviation_norm(dtype: torch.dtype) -> None:
    assert_finite(tiny_network(norm_form="standard_deviation", norm_epsilon=1e-3).to(dtype), dtype)


@POSITIONS
def test_a_fully_padded_row_gives_finite_gradients_and_changes_no_others(positions: str) -> None:
    network = tiny_network(positions=positions, embedding_dropout=0.0, residual_dropout=0.0).train()

    def gradients(rows: int) -> list[Tensor]:
        logits = network(with_an_empty_row()[:rows], ids(2, 4)[:rows])
        return list(torch.autograd.grad(logits[0].square().mean(), list(network.parameters())))

    for alone, in_company in zip(gradients(1), gradients(2), strict=True):
        assert in_company.isfinite().all()
        assert_close(in_company, alone, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("positions", ["sinusoidal", "relative", "rotary"])
def test_mixed_precision_training_gives_finite_gradients(positions: str) -> None:
    network = tiny_network(positions=positions).train()
    with torch.autocast("cpu", torch.bfloat16):
        logits = network(with_an_empty_row(), ids(2, 4))
    logits.float().square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())


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
