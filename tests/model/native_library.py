"""The native library for tests: built once if need be, and engines over it."""

import shutil

import pytest

from model.checkpoint.weights import StoredTensor
from model.checkpoint.weights_writer import stored
from model.decoding.engine import DecodingEngine
from model.decoding.native_runner import NativeNetwork, NativeRunner
from model.errors import NativeError
from model.native.binding import Library, load_library, runnable_variants
from model.native.build import VARIANTS, build
from model.native.shared_weights import SharedMemory
from model.network.transformer import Transformer

HAS_COMPILER = any(map(shutil.which, ("c++", "g++", "clang++")))


def _why_not() -> str:
    if HAS_COMPILER and runnable_variants():
        build()
    try:
        load_library()
    except NativeError as error:
        return str(error)
    return ""


needs_native = pytest.mark.skipif(bool(_why_not()), reason=_why_not())
needs_compiler = pytest.mark.skipif(not HAS_COMPILER, reason="there is no C++ compiler")


def native_library(variant: str) -> Library:
    """The library for one instruction set; the test is skipped where it cannot be had."""
    if variant not in runnable_variants():
        pytest.skip(f"this processor has no {variant}")
    if not HAS_COMPILER:
        pytest.skip("there is no C++ compiler")
    build()
    return load_library(variant)


def fastest_library() -> Library:
    """The library that the service would take."""
    runnable = runnable_variants()
    return native_library(runnable[0] if runnable else next(iter(VARIANTS)))


def stored_weights(network: Transformer) -> dict[str, StoredTensor]:
    """The weights of a network under all of their names, as a checkpoint has them."""
    return {name: stored(name, tensor) for name, tensor in network.state_dict().items()}


def native_network(
    network: Transformer,
    precision: str = "float32",
    *,
    library: Library | None = None,
    memory: SharedMemory | None = None,
) -> NativeNetwork:
    """A network with these weights in a library, by default the one that the service would take."""
    chosen = library or fastest_library()
    return NativeNetwork(network.config, stored_weights(network), precision, library=chosen, memory=memory)


def engine_over(network: NativeNetwork, **bounds: int) -> DecodingEngine:
    """An engine with a session of its own."""
    return DecodingEngine(NativeRunner(network, max_rows=256, max_kv_slots=8192), network.config, **bounds)


def native_engine(
    network: Transformer, *, library: Library | None = None, precision: str = "float32", **bounds: int
) -> DecodingEngine:
    """An engine that computes with these weights natively."""
    return engine_over(native_network(network, precision, library=library), **bounds)
