"""ⓕ Decoders for validation: the native library where it supports the network, else PyTorch."""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import torch

from model.decoding.device import available_cores
from model.decoding.engine import DecodingEngine
from model.decoding.factory import native_factory, torch_engine
from model.decoding.runner import Result
from model.errors import NativeError
from model.network.transformer import Transformer
from model.request import DecodeRequest
from model.translation.translator import decode_in_parallel

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ValidationDecoder:
    """Translates with the weights of one validation, on engines that decode in parallel.

    Attributes:
        name: Library and precision, for the log.
        engines: Engines over the same weights.
    """

    name: str
    engines: Sequence[DecodingEngine]

    def decode(self, requests: Sequence[DecodeRequest]) -> list[Result]:
        """The hypotheses of each request, or the error why there are none."""
        return decode_in_parallel(self.engines, requests)

    def close(self) -> None:
        """Free the memory of the engines."""
        for engine in self.engines:
            engine.close()


NewDecoder = Callable[[Transformer], ValidationDecoder]
"""Makes a decoder of a network's current weights."""


def new_decoder(network: Transformer, *, never_produced: Collection[int] = ()) -> ValidationDecoder:
    """The fastest decoder whose translations equal those of PyTorch in float32.

    On a CPU that is the native library in float32, with one engine per numeric thread. On a GPU, and for
    networks that the library does not support, it is PyTorch.

    Args:
        network: Network in evaluation mode; its weights may change once the decoder is closed.
        never_produced: See `torch_runner`.
    """
    device = network.output.weight.device
    if device.type == "cpu":
        try:
            return _native(network, never_produced)
        except NativeError as reason:
            logger.info("validating with PyTorch, not natively: %s", reason)
    name = f"torch {str(network.output.weight.dtype).removeprefix('torch.')}"
    return ValidationDecoder(name, [torch_engine(network, device=device, never_produced=never_produced)])


def _native(network: Transformer, never_produced: Collection[int]) -> ValidationDecoder:
    weights = dict(network.named_parameters())
    factory = native_factory(network.config, weights, "float32", never_produced=never_produced)
    num_engines = min(available_cores(), torch.get_num_threads())
    return ValidationDecoder("native float32", [factory.make() for _ in range(num_engines)])
