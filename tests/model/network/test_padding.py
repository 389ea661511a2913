"""A sentence's numbers depend neither on how much it is padded nor on what else is in its batch."""

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


def sentence(length: int, seed: int, padding: int = 0) -> Tensor:
    """One row of ids, padded on the right."""
    return pad(ids(1, length, seed=seed), (0, padding), value=PAD)


def batch(lengths: tuple[int, ...]) -> Tensor:
    """`sentence(length, seed)` with seeds 0, 1, 2…, padded to the longest."""
    longest = max(lengths)
    return torch.cat([sentence(n, seed, longest - n) for seed, n in enumerate(lengths)])


@POSITIONS
@pytest.mark.parametrize("norm_position", ["pre", "post"])
@torch.inference_mode()
def test_alone_or_in_a_batch(positions: str, norm_position: str) -> None:
    network = tiny_network(positions=positions, norm_position=norm_position, final_norm=True)
    together = network(batch(SOURCE_LENGTHS), batch(TARGET_LENGTHS))
    for row, (source, target) in enumerate(zip(SOURCE_LENGTHS, TARGET_LENGTHS, strict=True)):
        alone = network(sentence(source, row), sentence(target, row))
        assert_close(together[row : row + 1, :target], alone, atol=1e-5, rtol=1e-5)


@POSITIONS
@torch.inference_mode()
def test_any_amount_of_padding(positions: str) -> None:
    network = tiny_network(positions=positions, final_norm=True)
    bare = network(sentence(5, 0), sentence(6, 1))
    for padding in (1, 3, 8):
        padded = network(sentence(5, 0, padding), sentence(6, 1, padding))
        assert_close(padded[:, :6], bare, atol=1e-5, rtol=1e-5)


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
