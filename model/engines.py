"""⑤ Which runner drives a network on this machine; nothing else chooses. No torch until it is needed."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from model.decoding.engine import DecodingEngine

if TYPE_CHECKING:
    import torch

    from model.decoding.network import Network

_MAX_ROWS = 1024
_MAX_POSITIONS = 2**18


def torch_engine(
    network: "Network",
    *,
    device: "torch.device | str" = "cpu",
    never_produced: Collection[int] = (),
    max_batch_tokens: int = 4096,
) -> DecodingEngine:
    """An engine that computes with PyTorch.

    Args:
        network: In evaluation mode; its weights may change between two calls of the engine.
        device: Where it lives.
        never_produced: Target ids that no translation may hold, beside padding and BOS: language
            tags, for example.
        max_batch_tokens: See DecodingEngine.
    """
    import torch

    from model.decoding.torch_runner import TorchRunner

    runner = TorchRunner(
        network,
        torch.device(device),
        max_rows=_MAX_ROWS,
        max_positions=_MAX_POSITIONS,
        never_produced=never_produced,
    )
    return DecodingEngine(runner, network.config, max_batch_tokens=max_batch_tokens)
