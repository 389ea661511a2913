"""A blank network: the right shape at no cost."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from model.network.initialisation import meta_init
from model.network.transformer import Transformer
from tests.model.tiny_networks import tiny_config

ROOT = Path(__file__).parents[3]
LOADING = """
import sys
from pathlib import Path
from model.checkpoint.folder import load_checkpoint
load_checkpoint(Path(sys.argv[1])).network()
print([name for name in ("torch._dynamo", "sympy") if name in sys.modules])
"""


def test_it_has_the_shape_of_a_real_one() -> None:
    with meta_init():
        network = Transformer(tiny_config())
    shapes = {name: value.shape for name, value in network.state_dict().items()}
    assert shapes == {name: value.shape for name, value in Transformer(tiny_config()).state_dict().items()}
    assert {parameter.device.type for parameter in network.parameters()} == {"meta"}


@pytest.mark.parametrize("draw", [nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_])
def test_nothing_is_drawn_inside_and_everything_outside(draw: object) -> None:
    weight = torch.full((2, 2), 7.0)
    with meta_init():
        assert draw(tensor=weight) is weight  # type: ignore[operator]
    assert weight.eq(7).all()
    draw(weight)  # type: ignore[operator]
    assert not weight.eq(7).all()


def test_loading_leaves_pytorchs_compiler_alone(tiny_checkpoint: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", LOADING, str(tiny_checkpoint)],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert result.stdout.strip() == "[]"
