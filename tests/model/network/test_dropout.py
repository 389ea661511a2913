import pytest
import torch

from model.network.layers import Dropout, keep_mask
from tests.model.tiny_networks import noise

SHAPES = pytest.mark.parametrize("shape", [(), (1,), (3,), (4,), (5, 7), (2, 3, 5)])


@SHAPES
def test_the_mask_has_the_shape_of_its_tensor(shape: tuple[int, ...]) -> None:
    mask = keep_mask(torch.ones(shape), 0.5)
    assert mask.shape == shape
    assert set(mask.flatten().tolist()) <= {0.0, 2.0}


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.9])
def test_a_mask_drops_its_rate_and_keeps_the_mean(rate: float) -> None:
    torch.manual_seed(3)
    mask = keep_mask(torch.ones(200_000), rate)
    assert (mask == 0).float().mean().item() == pytest.approx(rate, abs=0.005)
    assert mask.mean().item() == pytest.approx(1, abs=0.02)


def test_neighbouring_decisions_are_independent() -> None:
    """Four of them come out of one draw."""
    torch.manual_seed(3)
    kept = (keep_mask(torch.ones(50_000, 4), 0.5) > 0).float()
    assert torch.corrcoef(kept.T).sub(torch.eye(4)).abs().max() < 0.02


def test_a_rate_of_1_leaves_nothing() -> None:
    assert not Dropout(1.0).train()(torch.ones(1000)).any()


@pytest.mark.parametrize("rate", [0.0, 0.5, 1.0])
def test_evaluation_drops_nothing(rate: float) -> None:
    states = noise(100)
    assert torch.equal(Dropout(rate).eval()(states), states)


def test_a_rate_of_0_draws_no_random_number() -> None:
    before = torch.random.get_rng_state()
    Dropout(0.0).train()(torch.ones(100))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_seed_decides_what_is_dropped() -> None:
    masks = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        masks.append(keep_mask(torch.ones(1000), 0.3))
    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_dtype_stays(dtype: torch.dtype) -> None:
    assert Dropout(0.3).train()(torch.ones(10, dtype=dtype)).dtype == dtype


def test_the_gradient_is_dropped_and_scaled_alike() -> None:
    states = torch.ones(1000, requires_grad=True)
    kept = Dropout(0.2).train()(states)
    kept.sum().backward()
    assert states.grad is not None
    assert torch.equal(states.grad, kept.detach())
