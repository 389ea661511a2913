import gc

import numpy as np
import pytest
import torch

from model.checkpoint.weights import StoredTensor
from model.decoding.native_runner import NativeNetwork
from model.errors import NativeError
from model.native.binding import Library
from tests.model.decoding.comparison import assert_same
from tests.model.decoding.networks import lively_network, request, sentences
from tests.model.decoding.reference import ReferenceDecoder
from tests.model.native_library import (
    engine_over,
    native_engine,
    native_library,
    native_network,
    needs_native,
    stored_weights,
)
from tests.model.tiny_networks import tiny_config, tiny_network


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_weights_may_come_from_a_checkpoint_in_any_type_it_stores(
    dtype: torch.dtype, library: Library
) -> None:
    torch_network = lively_network(2)
    with torch.no_grad():
        for parameter in torch_network.parameters():
            parameter.copy_(parameter.to(dtype))
    requests = [request(source) for source in sentences(4, 7)]
    expected = native_engine(torch_network, library=library).decode(requests)
    assert native_engine(torch_network.to(dtype), library=library).decode(requests) == expected


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_int8_weights_are_taken_as_they_are(precision: str, library: Library) -> None:
    torch_network = lively_network(2, tie="all")
    weights = stored_weights(torch_network)
    for name, tensor in torch_network.state_dict().items():
        if tensor.dim() == 2:
            weights[name] = StoredTensor.rounded(tensor.numpy().copy(), "int8")
            with torch.no_grad():
                tensor.copy_(weights[name].torch())
    requests = [request(source) for source in sentences(4, 7)]
    network = NativeNetwork(torch_network.config, weights, precision, library=library)
    expected = native_engine(torch_network, library=library, precision=precision).decode(requests)
    for ours, theirs in zip(engine_over(network).decode(requests), expected, strict=True):
        assert_same(ours, theirs)


def test_tied_weights_are_needed_once(library: Library) -> None:
    torch_network = lively_network(tie="all", output_bias=True)
    weights = stored_weights(torch_network)
    del weights["output.weight"], weights["target_embedding.tokens.weight"]
    engine = engine_over(NativeNetwork(torch_network.config, weights, library=library))
    requests, reference = [request(source) for source in sentences(4, 7)], ReferenceDecoder(torch_network)
    for asked, result in zip(requests, engine.decode(requests), strict=True):
        assert_same(result, reference.decode(asked))


def test_narrow_weights_occupy_less(library: Library) -> None:
    network = tiny_network(model_dim=64, ffn_dim=256)
    sizes = [
        native_network(network, precision, library=library).weight_bytes
        for precision in ("float32", "bfloat16", "int8")
    ]
    assert sizes[0] > sizes[1] > sizes[2] > 0


@pytest.mark.parametrize("model_dim", [48, 64, 192])
def test_tiles_add_up_integers_as_vectors_do(model_dim: int) -> None:
    network = lively_network(model_dim=model_dim, ffn_dim=2 * model_dim)
    tiles, vectors = (
        native_engine(network, library=native_library(variant), precision="int8")
        for variant in ("amx", "avx512")
    )
    for count in (1, 11, 12, 33, 70, 100):
        requests = [request(source) for source in sentences(*[7] * count)]
        for ours, expected in zip(tiles.decode(requests), vectors.decode(requests), strict=True):
            assert_same(ours, expected)


def test_an_entry_holds_keys_and_values_of_all_layers(library: Library) -> None:
    network = tiny_network(model_dim=64, num_decoder_layers=3)  # heads of 32 fill whole vectors
    packed = native_network(network, library=library)
    assert packed.kv_slot_bytes == 3 * 2 * 64 * 4
    narrow = native_network(network, "int8", library=library)
    assert narrow.kv_slot_bytes <= packed.kv_slot_bytes


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"num_encoder_layers": 0}, "encoder-decoders only"),
        ({"num_decoder_layers": 0}, "encoder-decoders only"),
        ({"max_positions": 2**32 + 1}, "max_positions up to 1073741824, not with 4294967297"),
    ],
)
def test_other_architectures_are_refused(changed: dict[str, object], words: str) -> None:
    with pytest.raises(NativeError, match=words):
        NativeNetwork(tiny_config(**changed), {})


def test_other_precisions_are_refused() -> None:
    with pytest.raises(NativeError, match="float32, bfloat16, int8, not in float16"):
        NativeNetwork(tiny_config(), {}, "float16")


@needs_native
@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (None, "is missing"),
        (StoredTensor(np.zeros((29, 15), np.float32), "float32"), r"must have shape \[29, 16\], but has"),
        (StoredTensor(np.zeros((29, 16)), "float32"), "must be contiguous, in one of float32, bfloat16"),
        (StoredTensor(np.zeros((16, 29), np.float32).T, "float32"), "must be contiguous"),
        (
            StoredTensor(np.zeros((29, 16), np.int8), "int8", np.zeros(28, np.float32)),
            "must have a float32 scale for",
        ),
    ],
)
def test_weights_that_do_not_fit_are_refused_by_name(tensor: StoredTensor | None, words: str) -> None:
    network = tiny_network()
    weights = stored_weights(network)
    del weights["output.weight"]
    given = {} if tensor is None else {"output.weight": tensor}
    with pytest.raises(NativeError, match=f"'output.weight' {words}"):
        NativeNetwork(network.config, weights | given)


@needs_native
def test_the_weights_may_go_once_they_are_packed() -> None:
    torch_network = lively_network(3)
    requests = [request(source) for source in sentences(5, 6)]
    expected = native_engine(torch_network).decode(requests)
    engine = native_engine(torch_network)
    with torch.no_grad():
        for parameter in torch_network.parameters():
            parameter.zero_()
    del torch_network
    gc.collect()
    assert engine.decode(requests) == expected
