import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from model.config import TransformerConfig
from model.decoding.native_network import NativeNetwork
from model.decoding.native_runner import NativeRunner, Session, integers, read_floats, read_integers
from model.decoding.runner import Interrupt, Progress
from model.decoding.sentence import Sentence
from model.errors import NativeError
from tests.model.decoding.networks import lively_network, request, sentences
from tests.model.native_library import engine_over, fastest_library

UNTIL_ONE_FINISHES = 1000


@pytest.fixture(scope="module")
def network() -> NativeNetwork:
    torch_network = lively_network(2)
    return NativeNetwork(torch_network.config, torch_network.state_dict(), library=fastest_library())


def admitted(config: TransformerConfig, *lengths: int, **options: object) -> list[Sentence]:
    return [Sentence.admit(request(source, **options), config) for source in sentences(*lengths)]


def run_to_the_end(runner: NativeRunner) -> list[Progress]:
    """Every report until nothing runs."""
    reports = []
    while (progress := runner.advance(Interrupt(), UNTIL_ONE_FINISHES)).steps:
        reports.append(progress)
    return reports


def test_finished_sentences_free_their_kv_slots(network: NativeNetwork) -> None:
    runner = NativeRunner(network, max_rows=64, max_positions=600)
    session = runner._session
    for _ in range(3):
        runner.admit(admitted(network.config, 5, 3, 9, beam_size=4, num_hypotheses=2))
        assert 0 < session.num_free_slots <= 600 - 17
        runner.admit(admitted(network.config, 4, strategy="sample", seed=1, num_hypotheses=3))
        assert len([pair for report in run_to_the_end(runner) for pair in report.finished]) == 4
        assert session.num_free_slots == 600


def test_a_sentence_never_needs_more_slots_than_it_reserves(network: NativeNetwork) -> None:
    for options in ({"beam_size": 5}, {"strategy": "sample", "seed": 2, "num_hypotheses": 4}):
        (sentence,) = admitted(network.config, 6, min_length=9, max_length=10, **options)
        runner = NativeRunner(network, max_rows=sentence.rows, max_positions=sentence.positions)
        runner.admit([sentence])
        least = sentence.positions
        while progress := runner.advance(Interrupt(), 1):
            if progress.finished:
                break
            least = min(least, runner._session.num_free_slots)
        assert 0 <= least < sentence.rows + 10


def test_sentences_that_do_not_fit_are_refused_together(network: NativeNetwork) -> None:
    first, second = admitted(network.config, 5, 5, beam_size=4)
    few_rows = NativeRunner(network, max_rows=7, max_positions=5000)
    few_positions = NativeRunner(network, max_rows=8, max_positions=first.positions + second.positions - 1)
    for runner, words in ((few_rows, "rows"), (few_positions, "KV slots")):
        with pytest.raises(NativeError, match=words):
            runner.admit([first, second])
        assert runner._session.num_free_slots == runner.max_positions
        assert run_to_the_end(runner) == []
        runner.admit([first])
        with pytest.raises(NativeError, match=words):
            runner.admit([second])
        assert [s for report in run_to_the_end(runner) for s, _ in report.finished] == [first]


def test_a_sentence_that_does_not_run_has_no_stable_prefix(network: NativeNetwork) -> None:
    session = Session(network, max_rows=1, max_slots=10, never_produced=())
    with pytest.raises(NativeError, match="no running sentence has this handle"):
        session.stable_prefix(1, 10)


def test_a_closed_session_refuses_all_calls(network: NativeNetwork) -> None:
    session = Session(network, max_rows=1, max_slots=10, never_produced=())
    session.close()
    session.close()
    calls: list[Callable[[], object]] = [
        lambda: session.admit([]),
        lambda: session.run(1, Interrupt().address),
        lambda: session.drop([1]),
        lambda: session.stable_prefix(1, 10),
        lambda: session.num_free_slots,
    ]
    for call in calls:
        with pytest.raises(NativeError, match="the session is closed"):
            call()


def test_sessions_on_several_threads_share_a_network(network: NativeNetwork) -> None:
    requests = [request(source, beam_size=3) for source in sentences(*[4, 9, 6, 2] * 10)]
    expected = engine_over(network).decode(requests)
    with ThreadPoolExecutor(3) as pool:
        runs = [pool.submit(engine_over(network).decode, requests) for _ in range(6)]
    for run in runs:
        assert run.result() == expected


def test_numbers_are_copied_from_the_librarys_memory() -> None:
    whole = integers([7, -1, 9])
    assert read_integers(ctypes.addressof(whole), 3) == (7, -1, 9)
    assert read_integers(ctypes.addressof(whole), 0) == ()
    assert read_integers(None, 0) == ()
    broken = (ctypes.c_float * 2)(0.5, -2.0)
    assert read_floats(ctypes.addressof(broken), 2) == (0.5, -2.0)
