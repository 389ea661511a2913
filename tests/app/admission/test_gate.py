"""The gate: exact however requests end, and always with room for another client; refusals at the head."""

import hashlib
import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from app.admission.gate import Gate, Permit
from app.connection.limits import ConnectionLimit
from app.errors import OverloadedError
from app.lifecycle.context import Context
from app.settings import Settings
from tests.app.connection.connection import Wire

REQUESTS = 20
BYTES = 10_000


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def refuses(gate: Gate, client: str, num_bytes: int = 0) -> bool:
    try:
        gate.admit(client, num_bytes).release()
    except OverloadedError:
        return True
    return False


class Admissions(RuleBasedStateMachine):
    """Requests begin, change their client or size, and end in any order; a plain sum is the model."""

    permits = Bundle("permits")
    clients = st.sampled_from("abc")
    sizes = st.integers(0, BYTES // 4)

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate(REQUESTS, BYTES, Clock())
        self.held: dict[Permit, tuple[str, int]] = {}

    @rule(target=permits, client=clients, size=sizes)
    def admit(self, client: str, size: int) -> Permit | None:
        try:
            permit = self.gate.admit(client, size)
        except OverloadedError:
            return None
        self.held[permit] = (client, size)
        return permit

    @rule(permit=permits, client=clients, share=st.floats(0, 1))
    def assign(self, permit: Permit | None, client: str, share: float) -> None:
        if permit in self.held:
            size = int(share * self.held[permit][1])
            try:
                permit.assign(client, size)
                self.held[permit] = (client, size)
            except OverloadedError:
                assert client != self.held[permit][0], "less for the same client always fits"

    @rule(permit=consumes(permits), times=st.integers(1, 2))
    def release(self, permit: Permit | None, times: int) -> None:
        if permit is not None:
            for _ in range(times):
                permit.release()
            del self.held[permit]

    @invariant()
    def the_sums_are_exact(self) -> None:
        assert self.gate.num_requests == len(self.held) <= REQUESTS
        assert self.gate._requests.of_client == Counter(client for client, _ in self.held.values())
        num_bytes: Counter[str] = Counter()
        for client, size in self.held.values():
            num_bytes[client] += size
        assert self.gate._bytes.of_client == +num_bytes

    @invariant()
    def there_is_room_for_another_client(self) -> None:
        assert not refuses(self.gate, "another")


TestAdmissions = Admissions.TestCase
TestAdmissions.settings = settings(max_examples=40)


def test_a_lone_client_gets_four_fifths_and_the_next_is_still_admitted() -> None:
    gate = Gate(REQUESTS, BYTES)
    permits = [gate.admit("greedy", 0) for _ in range(REQUESTS * 4 // 5)]
    assert refuses(gate, "greedy")
    assert not refuses(gate, "modest")
    permits[0].release()
    assert not refuses(gate, "greedy")


def test_bytes_are_shared_like_requests() -> None:
    gate = Gate(REQUESTS, BYTES)
    first, second = gate.admit("greedy", 5000), gate.admit("greedy", 3000)
    assert refuses(gate, "greedy", 1)
    assert refuses(gate, "modest", 2001)
    first.assign("greedy", 100)
    assert not refuses(gate, "modest", 2001)
    gate.admit("modest", 5000)
    with pytest.raises(OverloadedError):
        second.assign("modest", 3000)
    assert gate._bytes.of_client == {"greedy": 3100, "modest": 5000}


def test_a_refusal_tells_when_the_requests_in_progress_will_have_been_answered() -> None:
    gate = Gate(REQUESTS, BYTES, clock := Clock())
    for _ in range(100):
        permit = gate.admit("a", 0)
        clock.now += 0.5
        permit.release()
        clock.now += 30.0
    for client in range(REQUESTS):
        gate.admit(str(client), 0)
    with pytest.raises(OverloadedError) as refusal:
        gate.admit("a", 0)
    assert refusal.value.retry_after == pytest.approx(REQUESTS * 0.5, abs=1), "idle times are no work"


BODY = b'{"q": "one", "source": "en", "target": "fr"}'


def request(body: bytes = BODY, *fields: bytes, path: bytes = b"/translate") -> bytes:
    lines = [b"POST %b HTTP/1.1" % path, b"Host: here", b"Content-Length: %d" % len(body), *fields]
    return b"\r\n".join([*lines, b"", body])


class Service:
    """A gate for two requests, and connections to it."""

    def __init__(self, **settings: object) -> None:
        self.context = Context(Settings(_env_file=None, **{"max_requests": 2} | settings))
        self.gate = self.context.gate
        self.admission = self.context.header_admission()

    def fill(self) -> list[Permit]:
        return [self.gate.admit(client, 0) for client in ("first", "second")]

    def wire(self) -> Wire:
        return Wire(admission=self.admission)

    def client(self, *fields: tuple[bytes, bytes], target: bytes = b"/translate", port: int = 4711) -> str:
        permit = self.admission.admit(b"POST", target, dict(fields), ("10.0.0.1", port), 0)
        assert permit is not None
        return permit._client


@pytest.fixture
def full() -> Service:
    service = Service()
    service.fill()
    return service


@pytest.mark.anyio
async def test_work_is_refused_by_a_full_gate_and_the_connection_lives() -> None:
    service = Service()
    permits = service.fill()
    wire = service.wire()
    await wire.send(request(BODY, b"X-Request-ID: mine") + request())
    assert (wire.statuses, wire.seen, wire.has_ended) == ([503, 503], [], False)
    head, _, rest = wire.written.partition(b"\r\n\r\n")
    body = json.loads(rest[: rest.find(b"}") + 1])
    assert b"Retry-After: 1" in head
    assert (body["code"], body["request_id"]) == ("overloaded", "mine")
    assert body["error"] == body["message"]
    permits[0].release()
    await wire.send(request())
    assert wire.statuses == [503, 503, 200]


@pytest.mark.anyio
async def test_a_refused_client_has_been_idle_since_its_refusal(full: Service) -> None:
    limit = ConnectionLimit(2)
    refused, silent = Wire(limit, full.admission), Wire(limit)
    await refused.send(request())
    assert Wire(limit).statuses == []
    assert (refused.statuses, refused.is_closing(), silent.is_closing()) == ([503], False, True)


@pytest.mark.anyio
async def test_requests_without_work_pass_a_full_gate(full: Service) -> None:
    wire = full.wire()
    get = b"GET %b HTTP/1.1\r\nHost: here\r\n\r\n"
    await wire.send(get % b"/livez" + get % b"/translate" + request(path=b"/elsewhere"))
    assert wire.statuses == [200, 200, 200]


@pytest.mark.anyio
async def test_a_page_of_another_origin_is_answered_by_the_application(full: Service) -> None:
    wire = full.wire()
    await wire.send(request(BODY, b"Origin: https://example.org"))
    assert wire.statuses == [200]


@pytest.mark.anyio
async def test_the_body_of_a_refused_request_is_discarded(full: Service) -> None:
    wire = full.wire()
    for byte in request():
        await wire.send(bytes([byte]))
    assert wire.statuses == [503]
    await wire.send(request() + b"POST /translate HTTP/1.1\r\nHost: here\r\n\r\n")
    assert (wire.statuses, wire.has_ended) == ([503] * 3, False)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "fields",
    [
        b"Content-Length: 1000000",
        b"Transfer-Encoding: chunked",
        b"Content-Length: 10\r\nExpect: 100-continue",
        b"Connection: close",
    ],
)
async def test_a_refusal_ends_the_connection_where_waiting_for_the_body_is_not_worth_it(
    full: Service, fields: bytes
) -> None:
    wire = full.wire()
    await wire.send(b"POST /detect HTTP/1.1\r\nHost: here\r\n%b\r\n\r\n" % fields)
    assert (wire.statuses, wire.has_ended) == ([503], True)
    assert b"Connection: close" in wire.written
    await wire.send(b"more of it")
    assert wire.statuses == [503]


@pytest.mark.parametrize(
    ("authorization", "client"),
    [
        (b"Bearer right", "key:alice"),
        (b"DeepL-Auth-Key right", "key:alice"),
        (b"Bearer invented", "address:10.0.0.1"),
        (b"Basic right", "address:10.0.0.1"),
        (b"", "address:10.0.0.1"),
    ],
)
def test_a_client_is_the_owner_of_a_valid_key_or_an_address(
    tmp_path: Path, authorization: bytes, client: str
) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"alice:{hashlib.sha256(b'right').hexdigest()}\n")
    service = Service(api_keys_file=keys)
    fields = ((b"host", b"here"), (b"authorization", authorization))
    assert service.client(*fields, target=b"/translate?x=1") == client


@pytest.mark.parametrize(
    ("target", "length", "held"),
    [
        (b"/translate", 500, 500),
        (b"/translate", 10_000, 2000),
        (b"/v2/document", 10_000, 10_000),
        (b"/translate_file?x=1", 99_999, 50_000),
        (b"/translate_file", None, 50_000),
    ],
)
def test_a_permit_holds_the_bytes_that_may_still_arrive(target: bytes, length: int | None, held: int) -> None:
    service = Service(max_body_bytes=2000, max_file_bytes=50_000)
    permit = service.admission.admit(b"POST", target, {}, ("10.0.0.1", 4711), length)
    assert permit is not None
    assert permit._num_bytes == held


def test_behind_a_proxy_each_connection_is_a_client() -> None:
    service = Service(trusted_proxies="10.0.0.1")
    assert service.client(port=1) != service.client(port=2)


@pytest.mark.anyio
async def test_refusals_are_counted_and_the_log_is_not_flooded(
    full: Service, caplog: pytest.LogCaptureFixture
) -> None:
    wire = full.wire()
    with caplog.at_level("INFO"):
        for _ in range(10):
            await wire.send(request())
    metrics = full.context.metrics
    totals = metrics.request_totals()
    assert (totals["accepted"], totals["refused"]) == (10, 10)
    for name, labels in (
        ("requests", {"endpoint": "/translate", "status": "503"}),
        ("rejected", {"reason": "overloaded"}),
    ):
        assert metrics.registry.get_sample_value(f"dragoman_{name}_total", labels) == 10
    assert len(caplog.records) == 1
