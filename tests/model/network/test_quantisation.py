"""int8 products are exact in their integers, close to the real product, and do not depend on the batch."""

import pytest
import torch
from torch import nn

from model.config import preset
from model.network.quantisation import Int8Linear, int8_product, int8_works, quantise, quantise_rows
from model.network.transformer import Transformer

pytestmark = pytest.mark.skipif(
    not int8_works(torch.device("cpu")), reason="this build of PyTorch has no int8 product on the CPU"
)


def test_integer_products_are_exact() -> None:
    rows = torch.randint(-128, 128, (5, 48), dtype=torch.int8)
    weight = torch.randint(-128, 128, (24, 48), dtype=torch.int8)
    assert torch.equal(int8_product(rows, weight.t()).long(), rows.long() @ weight.t().long())


def test_a_row_uses_all_of_its_range() -> None:
    rows, scale = quantise_rows(torch.tensor([[0.5, -1.0, 0.25], [0.0, 0.0, 0.0], [300.0, 0.0, -300.0]]))
    assert rows.tolist() == [[64, -127, 32], [0, 0, 0], [127, 0, -127]]
    torch.testing.assert_close(scale[[0, 2], 0], torch.tensor([1 / 127, 300 / 127]))


@pytest.mark.parametrize("bias", [True, False])
def test_the_product_is_close_to_the_real_one(bias: bool) -> None:
    torch.manual_seed(0)
    linear = nn.Linear(64, 32, bias=bias)
    states = torch.randn(2, 3, 64)
    real, rounded = linear(states), Int8Linear(linear)(states)
    assert rounded.shape == real.shape
    assert (rounded - real).norm() / real.norm() < 0.02


def test_a_row_does_not_depend_on_its_batch_mates() -> None:
    torch.manual_seed(0)
    linear = Int8Linear(nn.Linear(64, 48))
    row = torch.randn(1, 64)
    alone = linear(row)
    for others in (1, 3, 16, 40):
        batch = torch.cat([torch.randn(others, 64) * 100, row])
        assert torch.equal(linear(batch)[-1:], alone)


def test_not_a_number_stays_in_its_row() -> None:
    states = torch.ones(3, 8)
    states[1, 2] = float("nan")
    result = Int8Linear(nn.Linear(8, 4))(states)
    assert result.isnan().all(-1).tolist() == [False, True, False]
    assert result[[0, 2]].isfinite().all()


def test_a_whole_network_is_replaced_and_still_agrees() -> None:
    torch.manual_seed(0)
    config = preset(
        "small", source_vocab_size=40, target_vocab_size=40, model_dim=32, num_heads=2, ffn_dim=64
    )
    network = Transformer(config).eval()
    source, target = torch.randint(4, 40, (3, 7)), torch.randint(4, 40, (3, 5))
    with torch.inference_mode():
        real = network(source, target)
        quantise(network)
        rounded = network(source, target)
    assert not any(isinstance(module, nn.Linear) for module in network.modules())
    assert (rounded - real).norm() / real.norm() < 0.05
