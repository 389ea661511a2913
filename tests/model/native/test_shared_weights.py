"""Packed weights in a memory file: the same tokens as from private memory, and no process harms another."""

import copy
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from model.decoding.native_runner import NativeNetwork
from model.errors import NativeError
from model.native.binding import Library
from model.native.shared_weights import SharedMemory, SharedWeights, WeightsHolder
from model.network.transformer import Transformer
from model.text.tokenizer import Tokenizer
from tests.model.decoding.networks import lively_network, request, sentences
from tests.model.native_library import (
    engine_over,
    native_engine,
    native_network,
    needs_native,
    stored_weights,
)
from tests.model.tiny_networks import T5, tiny_config, tiny_network
from tests.model.weights_holder import answering_holder, wait_until
from tests.tiny import save_network
from tests.tiny import tiny_config as text_config

ROOT = Path(__file__).parents[3]


@pytest.fixture
def holder() -> Iterator[WeightsHolder]:
    with answering_holder() as holder:
        yield holder


@pytest.fixture
def shared(holder: WeightsHolder) -> SharedWeights:
    return SharedWeights(holder.client)


def opened(shared: SharedWeights, key: str = "a") -> SharedMemory:
    memory = shared.open(key)
    assert memory is not None
    return memory


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize(
    "variant",
    [
        {"norm_bias": False, "tie": "none"},
        {"decoder_memory": "ssru", "embedding_norm": True, "positions": "learned"},
        {"positions": "rotary", "tie": "all"},
        {"positions": "relative_vectors", "tie": "embeddings", "output_bias": False},
        T5,
    ],
    ids=["none", "ssru-learned", "rotary", "relative-vectors", "T5"],
)
def test_what_another_process_has_packed_gives_the_same_tokens(
    variant: dict[str, object], precision: str, library: Library, shared: SharedWeights
) -> None:
    network = lively_network(**variant)
    requests = [request(source) for source in sentences(4, 7, 2)]
    expected = native_engine(network, library=library, precision=precision).decode(requests)
    for weights in (stored_weights(network), {}):  # the second network reads no tensor
        memory = opened(shared)
        native = NativeNetwork(network.config, weights, precision, library=library, memory=memory)
        assert engine_over(native).decode(requests) == expected
        if weights:
            first = native  # lives on: otherwise the holder forgets the file
    assert memory.is_packed
    assert first.weight_bytes == native.weight_bytes


@needs_native
def test_a_published_file_cannot_be_changed(shared: SharedWeights) -> None:
    network = tiny_network()
    memory = opened(shared)
    native = native_network(network, memory=memory)
    for change in (lambda file: os.pwrite(file, b"x", 0), lambda file: os.ftruncate(file, 0)):
        with pytest.raises(PermissionError):
            change(memory.descriptor)
    assert os.fstat(memory.descriptor).st_size == native.weight_bytes


@needs_native
@pytest.mark.parametrize("what", ["network", "precision", "library"])
def test_weights_of_another_network_or_library_are_refused(what: str, shared: SharedWeights) -> None:
    network = tiny_network()
    packed = native_network(network, memory=opened(shared))
    config = tiny_config(norm_epsilon=0.25) if what == "network" else network.config
    precision = "int8" if what == "precision" else packed.precision
    library = copy.copy(packed.binding)
    library.name += "" if what != "library" else "-of-other-sources"
    memory = opened(shared)
    with pytest.raises(NativeError, match="weights of another process are of another network or library"):
        NativeNetwork(config, {}, precision, library=library, memory=memory)
    memory.close()


@needs_native
def test_a_file_of_another_size_is_refused(shared: SharedWeights) -> None:
    network = tiny_network()
    memory = opened(shared)
    os.ftruncate(memory.descriptor, 4096)
    with pytest.raises(NativeError, match=r"must have \d+ bytes, but have 4096 instead"):
        native_network(network, memory=memory)
    memory.close()


def test_a_file_is_held_as_long_as_a_process_uses_it(holder: WeightsHolder, shared: SharedWeights) -> None:
    first, other = opened(shared), opened(shared, "another key")
    first.publish(b"label")
    second = opened(shared)
    assert (first.is_packed, second.is_packed, other.is_packed) == (False, True, False)
    first.close()
    third = opened(shared)
    assert third.is_packed
    assert third.label() == b"label"
    for memory in (second, third, other):
        memory.close()
    wait_until(lambda: holder.num_files == 0)
    again = opened(shared)
    assert not again.is_packed
    again.close()


def test_the_others_wait_while_one_packs_and_the_next_packs_if_it_fails(shared: SharedWeights) -> None:
    first, found = opened(shared), list[SharedMemory]()
    waiting = [threading.Thread(target=lambda: found.append(opened(shared))) for _ in range(3)]
    for thread in waiting:
        thread.start()
    first.close()
    wait_until(lambda: len(found) == 1)
    found[0].publish(b"label")
    for thread in waiting:
        thread.join()
    assert [memory.is_packed for memory in found] == [False, True, True]
    for memory in found:
        memory.close()


def test_without_a_holder_the_weights_are_private(caplog: pytest.LogCaptureFixture) -> None:
    holder = WeightsHolder()
    client = holder.client.dup()
    holder.close()
    assert SharedWeights(client).open("a") is None
    assert "not shared with other processes" in caplog.text
    client.close()


PROGRAM = """
import socket, sys
from model.checkpoint.folder import load_checkpoint
from model.decoding.engine import DecodingEngine
from model.decoding.native_runner import NativeNetwork, NativeRunner
from model.native.shared_weights import SharedWeights
from model.decode_request import DecodeOptions, DecodeRequest

memory = SharedWeights(socket.socket(fileno=int(sys.argv[1]))).open("a")
print("packed" if memory.is_packed else "empty", flush=True)
sys.stdin.readline()
checkpoint = load_checkpoint(sys.argv[2], with_weights=not memory.is_packed)
network = NativeNetwork(checkpoint.config, checkpoint.weights, memory=memory)
options = DecodeOptions(strategy="greedy", max_length=8)
engine = DecodingEngine(NativeRunner(network, max_rows=8, max_kv_slots=64), network.config)
(result,) = engine.decode([DecodeRequest((5, 6, 7, checkpoint.config.eos_id), options)])
print(network.weight_bytes, *result[0].token_ids, flush=True)
sys.stdin.readline()
own, sizes = False, {}
for line in open("/proc/self/smaps"):
    name, value, *_ = *line.split(), "", ""
    if not name.endswith(":"):
        own = "memfd:dragoman-weights" in line
    elif own and value.isdigit():
        sizes[name] = sizes.get(name, 0) + int(value) * 1024
print(sizes["Rss:"], sizes["Pss:"], flush=True)
sys.stdin.readline()
"""


class Process:
    """A process that loads a checkpoint in four stages, each of which ends with a line."""

    def __init__(self, holder: WeightsHolder, folder: Path) -> None:
        file = holder.client.fileno()
        command = [sys.executable, "-c", PROGRAM, str(file), str(folder)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, cwd=ROOT, pass_fds=[file], **pipes)  # type: ignore[call-overload]

    def line(self) -> list[str]:
        """Waits for its next line."""
        line: str = self.process.stdout.readline()
        return line.split()

    def go_on(self) -> list[str]:
        """Lets it go on until its next line."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.line()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def start(
    holder: WeightsHolder, tiny_tokenizer_folder: Path, tmp_path: Path
) -> Iterator[Callable[[], Process]]:
    """Starts a process, which loads a network of more than one huge page; all are killed at the end."""
    config = text_config(Tokenizer.load(tiny_tokenizer_folder), model_dim=256, num_heads=8, ffn_dim=1024)
    save_network(tmp_path / "model", Transformer(config), tiny_tokenizer_folder)
    processes: list[Process] = []

    def start() -> Process:
        processes.append(Process(holder, tmp_path / "model"))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()


@needs_native
def test_processes_share_weights_and_a_killed_one_takes_none_with_it(
    start: Callable[[], Process], holder: WeightsHolder
) -> None:
    doomed = start()
    assert doomed.line() == ["empty"]
    packing = start()
    doomed.kill()  # before it has packed the weights: another process does
    assert packing.line() == ["empty"]
    using = start()
    size, *tokens = packing.go_on()
    assert using.line() == ["packed"]
    assert using.go_on() == [size, *tokens]
    figures = [tuple(map(int, each.go_on())) for each in (packing, using)]
    assert all(mapped >= int(size) for mapped, _ in figures)
    assert sum(share for _, share in figures) <= int(size) + 2 * 4096
    packing.kill()  # afterwards: the others keep them
    later = start()
    assert later.line() == ["packed"]
    assert later.go_on() == [size, *tokens]
    for process in (using, later):
        process.kill()
    wait_until(lambda: holder.num_files == 0)
