"""Finite weights that overflow inside: the sentence that met them fails alone, the others are unchanged.

Natively to the last bit; in PyTorch the size of the batch decides in what order products are summed.
"""

from collections.abc import Callable

import pytest
import torch

from model.decode_request import DecodeRequest
from model.decoding.device import Precision
from model.decoding.engine import DecodingEngine
from model.decoding.factory import torch_engine
from model.decoding.native_runner import NativeRunner
from model.decoding.pytorch.torch_runner import apply_precision
from model.decoding.runner import Result
from model.errors import NotFiniteError
from model.network.transformer import Transformer
from tests.model.decoding.comparison import assert_same
from tests.model.decoding.networks import EOS, lively_network, request
from tests.model.decoding.test_equivalence_reference import STRATEGIES
from tests.model.native_library import native_engine, needs_native

NewEngine = Callable[[Transformer, Precision], DecodingEngine]
CULPRIT = 9


def _native(network: Transformer, precision: Precision) -> DecodingEngine:
    return native_engine(network, precision=precision)


def _torch(network: Transformer, precision: Precision) -> DecodingEngine:
    return torch_engine(apply_precision(network, precision))


ENGINES = pytest.mark.parametrize("engine", [pytest.param(_native, marks=needs_native), _torch])
PRECISIONS = pytest.mark.parametrize("precision", ["float32", "int8"])


def overflowing(number: float, *, source: bool, **shape: object) -> Transformer:
    """One token's embedding, in the source or in the target, is too large to calculate with."""
    network = lively_network(**shape)
    embedding = network.source_embedding if source else network.target_embedding
    signs = torch.tensor([1.0, -1.0]).repeat(network.config.model_dim // 2)
    with torch.no_grad():
        embedding.tokens.weight[CULPRIT] = number * signs
    return network


def assert_as_alone(engine: DecodingEngine, asked: DecodeRequest, result: Result) -> None:
    (alone,) = engine.decode([asked])
    assert isinstance(alone, list)
    assert_same(result, alone)
    if isinstance(engine._runner, NativeRunner):
        assert result == alone


@ENGINES
@PRECISIONS
@pytest.mark.parametrize("norm_position", ["pre", "post"])
def test_a_source_that_overflows_fails_alone(
    engine: NewEngine, precision: Precision, norm_position: str
) -> None:
    network = overflowing(3e38, source=True, norm_position=norm_position)
    sources = [(5, 6, EOS), (5, CULPRIT, EOS), (4, 8, 10, CULPRIT, EOS), (11, 12, 5, EOS)]
    asked = [request(source, **options, min_length=4) for options in STRATEGIES for source in sources]
    decoder = engine(network, precision)
    for one, result in zip(asked, decoder.decode(asked), strict=True):
        if CULPRIT in one.source_ids:
            assert isinstance(result, NotFiniteError)
        else:
            assert_as_alone(decoder, one, result)


@ENGINES
@PRECISIONS
def test_a_translation_that_overflows_on_its_way_fails_alone(engine: NewEngine, precision: Precision) -> None:
    decoder = engine(overflowing(3e38, source=False, tie="none"), precision)
    asked = []
    for options in STRATEGIES:
        first, last = (
            request(source, **options, min_length=4, suppress_ids=[CULPRIT])
            for source in ((5, 6, EOS), (11, 12, 5, EOS))
        )
        # It is fine until it looks back at the culprit.
        broken = request((8, 6, EOS), prefix=(4, 5, CULPRIT), **options, min_length=6)
        asked += [first, broken, last]
    for one, result in zip(asked, decoder.decode(asked), strict=True):
        if one.prefix_ids:
            assert isinstance(result, NotFiniteError)
        else:
            assert_as_alone(decoder, one, result)


@needs_native
@pytest.mark.parametrize("norm_form", ["variance", "standard_deviation"])
@pytest.mark.parametrize("norm_position", ["pre", "post"])
def test_an_overflow_that_a_norm_would_divide_away_is_found_natively(
    norm_position: str, norm_form: str
) -> None:
    """Squares overflow long before the numbers do: divided by an infinite deviation, all would be 0."""
    network = overflowing(1e25, source=True, norm_position=norm_position, norm_form=norm_form)
    asked = [request(source, strategy="greedy") for source in ((5, 6, EOS), (5, CULPRIT, EOS))]
    results = native_engine(network).decode(asked)
    assert isinstance(results[0], list)
    assert isinstance(results[1], NotFiniteError)
