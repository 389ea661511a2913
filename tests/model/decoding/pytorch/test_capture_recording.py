"""Steps are recorded and replayed on a strict stand-in for a GPU, in traffic, with failures and reloads."""

import logging
import threading
from collections.abc import Callable, Sequence
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model.decode_request import DecodeOptions, DecodeRequest
from model.decoding.engine import DecodingEngine
from model.decoding.pytorch import device_use
from model.decoding.pytorch.device_use import CudaGraphs, RecordingGate, count_graphs, to_device
from model.decoding.pytorch.encoding import SideEncoder
from model.decoding.pytorch.static_runner import StaticBatch, StaticRunner
from model.decoding.runner import Result
from model.errors import DeviceLostError
from model.network.transformer import Transformer
from tests.model.decoding.arrivals import run_through
from tests.model.decoding.comparison import assert_same
from tests.model.decoding.networks import lively_network, request, sentences
from tests.model.decoding.pytorch.cuda_stub import CaptureError, StubCuda, cuda, install
from tests.model.decoding.pytorch.legality import HostOperations
from tests.model.decoding.reference import ReferenceDecoder
from tests.model.decoding.test_equivalence_reference import many_requests, option_sets

__all__ = ["cuda"]

NETWORK = lively_network(7)
CPU = torch.device("cpu")
_WAIT = 60.0


@pytest.fixture(autouse=True)
def eager_to_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shapes are recorded at their second run."""
    monkeypatch.setattr(device_use, "_RUNS_BEFORE_RECORDING", 2)


def static_runner(network: Transformer = NETWORK, **sizes: object) -> StaticRunner:
    return StaticRunner(network, CPU, **{"max_rows": 12, "widths": (1, 2, 4), "capacity": 16, **sizes})  # type: ignore[arg-type]


_PHRASES = DecodeRequest(sentences(4)[0], DecodeOptions(max_length=6), phrases=(((5, 6), (7,)),))
EVERY_KIND = (*many_requests(), _PHRASES)
A_FEW = (EVERY_KIND[0], EVERY_KIND[2], EVERY_KIND[7])


@cache
def expected_of(network: Transformer) -> dict[DecodeRequest, Result]:
    """What the slow search makes of requests of every kind."""
    reference = ReferenceDecoder(network)
    return {one: reference.decode(one) for one in EVERY_KIND}


def require_right(
    runner: StaticRunner, network: Transformer = NETWORK, asked: Sequence[DecodeRequest] = A_FEW
) -> None:
    """Decodes requests and compares them with the slow search."""
    results = DecodingEngine(runner, network.config).decode(asked)
    for one, result in zip(asked, results, strict=True):
        expected = expected_of(network)[one]
        assert isinstance(expected, list)
        assert_same(result, expected)


@pytest.mark.parametrize("network", [NETWORK, lively_network(7, decoder_memory="ssru")])
def test_replays_give_the_tokens_of_the_slow_search(cuda: StubCuda, network: Transformer) -> None:
    runner = static_runner(network)
    runner.warm_up()
    recorded = len(runner._graphs)
    require_right(runner, network, EVERY_KIND if network is NETWORK else A_FEW)
    require_right(runner, network)
    assert cuda.violations == []
    assert cuda.calls["replay"] > 10
    assert len(runner._graphs) > recorded > 0
    assert runner._graphs.num_eager == 0


def test_the_host_never_waits_for_the_step_that_it_has_just_started(cuda: StubCuda) -> None:
    runner = static_runner(widths=(1,))
    asked = [
        request(s, strategy="greedy", min_length=n, max_length=n) for n, s in enumerate(sentences(4, 3, 5), 6)
    ]
    results = DecodingEngine(runner, NETWORK.config).decode(asked)
    for one, result in zip(asked, results, strict=True):
        assert_same(result, ReferenceDecoder(NETWORK).decode(one))
    # When it learns what a step finished, the next one is on its way, except after the last.
    assert cuda.events_ahead == [1] * 7 + [0]


@pytest.mark.parametrize(
    ("owner", "name", "most"),
    [
        (SideEncoder, "encode", 6),
        (StaticBatch, "admit", 52),
        (StaticBatch, "_start", 18),
        (StaticBatch, "_finish", 56),
    ],
    ids=["encode", "admit", "step", "finish"],
)
def test_a_recorded_turn_keeps_to_its_budget_of_host_operations(
    cuda: StubCuda, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, most: int
) -> None:
    """Two layers; two sentences arrive together. A replay is one operation that PyTorch does not see."""
    counts: list[int] = []
    original = getattr(owner, name)

    def counted(*arguments: object) -> object:
        with HostOperations() as operations:
            result = original(*arguments)
        counts.append(operations.count)
        return result

    monkeypatch.setattr(owner, name, counted)
    runner = static_runner(widths=(1,))
    for _ in range(4):
        asked = [request(source, strategy="greedy", min_length=2, max_length=2) for source in sentences(3, 3)]
        DecodingEngine(runner, NETWORK.config).decode(asked)
    assert counts[-1] <= most < max(counts)


def test_fused_steps_are_recorded_and_replayed(cuda: StubCuda) -> None:
    pytest.importorskip("triton", reason="needs the package triton")
    network = lively_network(7, num_decoder_layers=1)
    runner, reference = (
        static_runner(network, widths=(1,), max_rows=2, is_fused=True),
        ReferenceDecoder(network),
    )
    runner.warm_up()
    asked = [request(source, strategy="greedy", min_length=3) for source in sentences(4, 2)]
    for one, result in zip(asked, DecodingEngine(runner, network.config).decode(asked), strict=True):
        assert_same(result, reference.decode(one))
    assert (cuda.violations, runner._graphs.num_eager) == ([], 0)
    assert cuda.calls["replay"] > 2


@settings(max_examples=5)
@given(st.lists(st.tuples(option_sets, st.integers(1, 9)), min_size=2, max_size=8))
def test_any_options_replay_as_they_run(asked: list[tuple[dict[str, object], int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device_use, "_RUNS_BEFORE_RECORDING", 1)
        stub = install(patch)
        runner, reference = static_runner(), ReferenceDecoder(NETWORK)
        requests = [request(sentences(n, seed=i)[0], **options) for i, (options, n) in enumerate(asked)]
        results, _ = run_through(runner, NETWORK.config, {0: requests})
        for one, result in zip(requests, results, strict=True):
            assert_same(result, reference.decode(one))
        assert (stub.violations, runner._graphs.num_eager) == ([], 0)


@pytest.mark.parametrize(
    ("place", "is_memory"), [("begin", False), ("body", False), ("body", True), ("end", True)]
)
def test_a_failed_recording_leaves_its_shape_eager_and_the_results_right(
    cuda: StubCuda, place: str, is_memory: bool, caplog: pytest.LogCaptureFixture
) -> None:
    message = "CUDA out of memory" if is_memory else "operation not permitted when stream is capturing"
    fault = torch.OutOfMemoryError(message) if is_memory else CaptureError(message)
    cuda.fail[place] = [fault]
    runner = static_runner()
    require_right(runner)
    every = runner._graphs, runner._read_graphs, runner._encoder.graphs
    assert sum(graphs.num_eager for graphs in every) == 1
    (warning,) = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert "runs without a CUDA graph" in warning.message
    require_right(runner)
    assert sum(graphs.num_eager for graphs in every) == 1
    assert cuda.calls["begin"] == sum(map(len, every)) + 1 > 1
    assert [len(stack) for stack in cuda.streams.values()] == [1]
    assert cuda.violations == []


def test_graphs_are_off_after_many_failures(cuda: StubCuda, caplog: pytest.LogCaptureFixture) -> None:
    cuda.fail["begin"] = [CaptureError(f"failure {number}") for number in range(99)]
    runner = static_runner()
    runner.warm_up()
    require_right(runner)
    assert runner._graphs.num_eager == device_use._MOST_FAILURES
    assert any("CUDA graphs are off" in message for message in caplog.messages)
    begun = cuda.calls["begin"]
    require_right(runner)
    assert cuda.calls["begin"] == begun
    assert count_graphs()["eager"] >= device_use._MOST_FAILURES


def test_what_is_used_least_recently_is_freed(cuda: StubCuda) -> None:
    graphs, total = CudaGraphs(CPU, most=2), torch.zeros(())
    for name in ("a", "b"):
        graphs.prepare(name, lambda: total.add_(1))
    graphs.run("a", lambda: total.add_(1))
    graphs.prepare("c", lambda: total.add_(1))
    assert len(graphs) == 2
    replays = cuda.calls["replay"]
    graphs.run("a", lambda: total.add_(1))
    assert cuda.calls["replay"] == replays + 1
    graphs.run("b", lambda: total.add_(1))
    assert cuda.calls["replay"] == replays + 1
    assert total == 6


def test_what_goes_to_a_gpu_is_copied_from_pinned_memory(cuda: StubCuda) -> None:
    assert to_device([1, 2], CPU).tolist() == [1, 2]
    assert cuda.calls["pin memory"] == 1


@pytest.mark.parametrize("times", [0, 2])
def test_work_is_tried_out_by_the_thread_and_on_the_stream_that_record_it(cuda: StubCuda, times: int) -> None:
    """Libraries keep handles, plans and memory by thread and stream. With 0 it is prepared, not run."""
    graphs, total = CudaGraphs(CPU), torch.zeros(())
    seen: list[tuple[int, object, bool]] = []

    def work() -> None:
        seen.append((threading.get_ident(), cuda.stack()[-1], cuda.recorder is not None))
        total.add_(1)

    if not times:
        graphs.prepare("shape", work)
    for _ in range(times):
        graphs.run("shape", work)
    *_, (thread, stream, is_recorded), recording = seen
    assert recording == (thread, stream, True)
    assert not is_recorded


def test_a_rare_shape_is_not_recorded(cuda: StubCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_use, "_RUNS_BEFORE_RECORDING", 5)
    graphs, total = CudaGraphs(CPU), torch.zeros(())
    for _ in range(4):
        graphs.run("shape", lambda: total.add_(1))
    assert (len(graphs), cuda.calls["begin"]) == (0, 0)
    graphs.run("shape", lambda: total.add_(1))
    assert len(graphs) == 1
    graphs.run("shape", lambda: total.add_(1))
    assert total == 6


def test_nothing_is_recorded_while_another_thread_uses_the_device(
    cuda: StubCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = RecordingGate()
    monkeypatch.setattr(device_use, "GATE", gate)
    graphs, total = CudaGraphs(CPU), torch.zeros(())
    with _beside(gate.use):
        for _ in range(9):
            graphs.run("shape", lambda: total.add_(1))
        assert cuda.calls["begin"] == 0
    graphs.run("shape", lambda: total.add_(1))
    assert (len(graphs), total) == (1, 10)


class _beside:  # noqa: N801
    """Holds a context in another thread as long as the block lasts."""

    def __init__(self, context: Callable[[], object]) -> None:
        self._context, self._inside, self._leave = context, threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with self._context():  # type: ignore[attr-defined]
            self._inside.set()
            assert self._leave.wait(_WAIT)

    def __enter__(self) -> None:
        self._thread.start()
        assert self._inside.wait(_WAIT)

    def __exit__(self, *_: object) -> None:
        self._leave.set()
        self._thread.join(_WAIT)


def test_a_recording_waits_for_the_others_and_they_for_it() -> None:
    gate, order = RecordingGate(), []

    def record() -> None:
        with gate.record():
            order.append("recorded")

    def use() -> None:
        with gate.use():
            order.append("used")

    with gate.use():
        recorder = threading.Thread(target=record)
        recorder.start()
        while gate._recorder is None and recorder.is_alive():
            pass
        with gate.use(), pytest.raises(RuntimeError, match="only if it need not wait"), gate.record():
            pass
        user = threading.Thread(target=use)
        user.start()
        order.append("first")
    recorder.join(_WAIT)
    user.join(_WAIT)
    assert order == ["first", "recorded", "used"]


def test_recordings_exclude_each_other() -> None:
    gate, order = RecordingGate(), []

    def record() -> None:
        with gate.record():
            order.append("second")

    with gate.record():
        other = threading.Thread(target=record)
        other.start()
        while other.is_alive() and not gate._changed._waiters:  # type: ignore[attr-defined] # of Condition
            pass
        order.append("first")
    other.join(_WAIT)
    assert order == ["first", "second"]


def test_a_reload_records_while_the_worker_decodes(cuda: StubCuda) -> None:
    """What a reload does in the background: new runners, each recording all of its shapes."""
    sizes = {"max_rows": 4, "widths": (1, 4)}
    live = static_runner(**sizes)
    live.warm_up()
    faults: list[BaseException] = []

    def reload() -> None:
        try:
            new = static_runner(**sizes)
            new.warm_up()
            require_right(new)
            new.close()
        except BaseException as fault:
            faults.append(fault)

    thread = threading.Thread(target=reload)
    thread.start()
    while thread.is_alive():
        require_right(live)
    thread.join(_WAIT)
    assert faults == []
    assert cuda.violations == []
    assert live._graphs.num_eager == 0


@pytest.mark.parametrize("name", ["new_pool", "position_tables"])
def test_a_new_runner_allocates_while_no_other_thread_records(
    cuda: StubCuda, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    allocate, is_using = getattr(Transformer, name), []

    def allocate_and_look(network: Transformer, size: int) -> object:
        is_using.append(threading.get_ident() in device_use.GATE._users)
        return allocate(network, size)

    monkeypatch.setattr(Transformer, name, allocate_and_look)
    static_runner()
    assert is_using
    assert all(is_using)


def test_a_lost_device_is_told_from_a_fault_of_one_sentence(cuda: StubCuda) -> None:
    runner = static_runner()
    engine = DecodingEngine(runner, NETWORK.config)
    asked = request(sentences(5)[0], strategy="greedy", min_length=5)
    engine.add(asked)
    cuda.fail["enter device"] = [torch.AcceleratorError("CUDA error: invalid argument")]
    for _ in range(9):
        runner_fault = None
        try:
            engine.step(max_steps=1)
        except torch.AcceleratorError as fault:
            runner_fault = fault
            break
    assert runner_fault is not None
    assert engine.is_idle
    assert_same(engine.decode([asked])[0], ReferenceDecoder(NETWORK).decode(asked))
    engine.add(asked)
    cuda.is_lost = True
    with pytest.raises(DeviceLostError, match="only a new process can use it: CUDA error: an illegal memory"):
        engine.step(max_steps=9)
