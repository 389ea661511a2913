"""The native library validates requests and vocabularies before it uses them."""

import ctypes
from collections.abc import Sequence

import pytest

from model.decoding.native_runner import NativeNetwork, integers
from model.errors import NativeError
from model.native.binding import (
    DONE,
    OptionsStruct,
    ProgressView,
    RequestStruct,
    ResultView,
    SessionConfig,
    freed_with,
)
from tests.model.decoding.networks import EOS, lively_network
from tests.model.native_library import native_network, needs_native

pytestmark = needs_native
GREEDY, BEAM = 0, 1


@pytest.fixture(scope="module")
def network() -> NativeNetwork:
    torch_network = lively_network(2, max_positions=32)
    return native_network(torch_network)


class Session:
    """The functions of a session, without what the runner checks before it calls them."""

    def __init__(self, network: NativeNetwork, never_produced: Sequence[int] = ()) -> None:
        never = integers(never_produced)
        config = SessionConfig(
            max_rows=8,
            max_slots=100,
            start_id=network.config.decoder_start_id,
            eos_id=EOS,
            never_produced=ctypes.addressof(never),
            num_never_produced=len(never),
        )
        self._network = network
        self._address = network.binding.session_create(network.address, config)
        self._close = freed_with(self, network.binding.session_free, self._address)

    def admit(self, request: RequestStruct) -> None:
        self._network.binding.session_admit(self._address, request, 1)

    def run(self, max_steps: int) -> ProgressView:
        progress, interrupt = ProgressView(), ctypes.c_int32(0)
        self._network.binding.session_run(self._address, max_steps, ctypes.addressof(interrupt), progress)
        return progress

    def stable_prefix(self, handle: int) -> int:
        tokens = (ctypes.c_int32 * 10)()
        return self._network.binding.session_stable_prefix(self._address, handle, tokens, 10)


def admit(
    network: NativeNetwork,
    *,
    source: Sequence[int] = (5, 6, EOS),
    prefix: Sequence[int] = (),
    suppressed: Sequence[int] = (),
    shortlist: Sequence[int] = (),
    phrase_ids: Sequence[int] = (),
    spellings: Sequence[tuple[int, int]] = (),
    strategy: int = BEAM,
    num_start: int = 0,
    max_length: int = 8,
    max_rows: int = 1,
    num_hypotheses: int = 1,
    min_length: int = 0,
    no_repeat_ngram_size: int = 0,
) -> Session:
    """Admits one sentence, decoded by a beam of one, to a session of its own."""
    session = Session(network)
    arrays = [integers(ids) for ids in (source, prefix, suppressed, shortlist, phrase_ids)]
    arrays.append(integers([number for spelling in spellings for number in spelling]))
    addresses: list[int | None] = [ctypes.addressof(array) for array in arrays]
    addresses.append(None)
    lengths = [*map(len, arrays[:-1]), len(spellings)]
    options = OptionsStruct(
        strategy=strategy,
        max_rows=max_rows,
        num_hypotheses=num_hypotheses,
        min_length=min_length,
        max_length=max_length,
        length_penalty=1,
        temperature=1,
        no_repeat_ngram_size=no_repeat_ngram_size,
        repetition_penalty=1,
    )
    session.admit(RequestStruct(7, *addresses, *lengths, num_start, options))
    return session


@pytest.mark.parametrize("shortlist", [(), (EOS, 5, 6, 7)])
def test_a_valid_request_is_translated(network: NativeNetwork, shortlist: tuple[int, ...]) -> None:
    session = admit(network, prefix=(5, 6), suppressed=(10**6,), shortlist=sorted(shortlist))
    progress = session.run(100)
    assert progress.num_results == 1
    result = ResultView.from_address(progress.results)
    assert (result.handle, result.status) == (7, DONE)


@pytest.mark.parametrize(
    ("request_fields", "problem"),
    [
        ({"source": ()}, "source's length must be from 1 to 32, but is 0"),
        ({"source": [5] * 33}, "source's length must be from 1 to 32, but is 33"),
        ({"source": [5, 10**6]}, "a source id must be from 0"),
        ({"source": [-1]}, "a source id must be from 0"),
        ({"max_length": 0}, "maximum length must be from 1 to 32, but is 0"),
        ({"max_length": 33}, "maximum length must be from 1 to 32, but is 33"),
        ({"prefix": [5] * 8}, "prefix's length must be from 0 to 7, but is 8"),
        ({"prefix": [10**6]}, "a prefix id must be from 0"),
        ({"prefix": [5], "num_start": 2}, "number of start tokens must be from 0 to 1, but is 2"),
        ({"suppressed": [-1]}, "a suppressed id must be from 0"),
        ({"shortlist": [EOS, 10**6]}, "a shortlisted id must be from 0"),
        ({"shortlist": [9, EOS]}, "a shortlist must ascend"),
        ({"shortlist": [EOS, 9, 9]}, "a shortlist must ascend"),
        ({"shortlist": [EOS, 9], "prefix": [8]}, "a shortlist must include the prefix"),
        ({"shortlist": [EOS, 9], "phrase_ids": [8], "spellings": [(1, 0)]}, "must include the phrases"),
        ({"phrase_ids": [8, 10**6], "spellings": [(2, 0)]}, "a phrase id must be from 0"),
        ({"phrase_ids": [8], "spellings": [(0, 0)]}, "length of a spelling must be from 1 to 1, but is 0"),
        ({"phrase_ids": [8], "spellings": [(1, 1)]}, "phrase of a spelling must be from 0 to 0, but is 1"),
        ({"phrase_ids": [8, 9], "spellings": [(1, 0)]}, "number of phrase ids must be from 1 to 1, but is 2"),
        ({"phrase_ids": [8], "spellings": [(1, 0)], "strategy": GREEDY}, "phrases need beam search"),
        ({"max_rows": 0}, "number of rows must be from 1"),
        ({"num_hypotheses": 0}, "number of results must be from 1 to 1"),
        ({"min_length": -1}, "minimum length must be from 0"),
        ({"no_repeat_ngram_size": -1}, "size of n-grams must be from 0"),
    ],
)
def test_an_invalid_request_is_refused(
    network: NativeNetwork, request_fields: dict[str, Sequence[int]], problem: str
) -> None:
    with pytest.raises(NativeError, match=problem):
        admit(network, **request_fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("token", [-1, 10**6])
def test_a_session_refuses_ids_beyond_its_vocabulary(network: NativeNetwork, token: int) -> None:
    with pytest.raises(NativeError, match="an id that is never produced must be from 0"):
        Session(network, never_produced=[token])


def test_a_sentence_that_does_not_run_has_no_stable_prefix(network: NativeNetwork) -> None:
    with pytest.raises(NativeError, match="no running sentence has this handle"):
        Session(network).stable_prefix(1)
