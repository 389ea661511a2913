"""The native library validates requests and vocabularies before it uses them."""

import ctypes
from collections.abc import Sequence

import pytest

from model.decoding.native_network import NativeNetwork
from model.decoding.native_runner import Session, integers
from model.decoding.runner import Interrupt
from model.errors import NativeError
from model.native.structures import DONE, OptionsStruct, RequestStruct, ResultView
from tests.model.decoding.networks import EOS, lively_network
from tests.model.native_library import fastest_library, needs_native

pytestmark = needs_native


@pytest.fixture(scope="module")
def network() -> NativeNetwork:
    torch_network = lively_network(2, max_positions=32)
    return NativeNetwork(torch_network.config, torch_network.state_dict(), library=fastest_library())


def admit(
    network: NativeNetwork,
    *,
    source: Sequence[int] = (5, 6, EOS),
    prefix: Sequence[int] = (),
    suppressed: Sequence[int] = (),
    shortlist: Sequence[int] = (),
    max_length: int = 8,
    max_rows: int = 1,
    num_hypotheses: int = 1,
    min_length: int = 0,
    no_repeat_ngram_size: int = 0,
) -> Session:
    """Admits one greedy sentence to a session of its own."""
    session = Session(network, max_rows=8, max_slots=100, never_produced=())
    arrays = [integers(ids) for ids in (source, prefix, suppressed, shortlist)]
    addresses = [ctypes.addressof(array) for array in arrays]
    lengths = [len(array) for array in arrays]
    options = OptionsStruct(
        max_rows=max_rows,
        num_hypotheses=num_hypotheses,
        min_length=min_length,
        max_length=max_length,
        length_penalty=1,
        temperature=1,
        no_repeat_ngram_size=no_repeat_ngram_size,
        repetition_penalty=1,
    )
    session.admit([RequestStruct(7, *addresses, *lengths, options)])
    return session


@pytest.mark.parametrize("shortlist", [(), (EOS, 5, 6, 7)])
def test_a_valid_request_is_translated(network: NativeNetwork, shortlist: tuple[int, ...]) -> None:
    session = admit(network, prefix=(5, 6), suppressed=(10**6,), shortlist=sorted(shortlist))
    progress = session.run(100, Interrupt().address)
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
        ({"suppressed": [-1]}, "a suppressed id must be from 0"),
        ({"shortlist": [EOS, 10**6]}, "a shortlisted id must be from 0"),
        ({"shortlist": [9, EOS]}, "a shortlist must ascend"),
        ({"shortlist": [EOS, 9, 9]}, "a shortlist must ascend"),
        ({"shortlist": [EOS, 9], "prefix": [8]}, "a shortlist must include the prefix"),
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
        Session(network, max_rows=1, max_slots=10, never_produced=[token])
