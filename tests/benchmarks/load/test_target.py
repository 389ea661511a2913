"""The service under load, and on whose behalf it is asked."""

import pytest

from benchmarks.load.target import Client, Target


def test_clients_differ_by_key_or_by_address() -> None:
    here = Target.of("http://127.0.0.1:8000/")
    assert here.url == "http://127.0.0.1:8000"
    assert here.clients(2) == [Client(address="127.0.0.1"), Client(address="127.0.0.2")]
    keyed = Target.of("http://127.0.0.1:8000", ["a", "b"])
    assert keyed.clients(2) == [Client(key="a"), Client(key="b")]
    assert b"Authorization: Bearer b\r\n" in keyed.requests(keyed.clients(2)[1], ["{}"])[0]


def test_elsewhere_clients_need_keys() -> None:
    elsewhere = Target(url="http://192.0.2.1", host="192.0.2.1", port=80)
    assert elsewhere.clients(1) == [Client()]
    with pytest.raises(ValueError, match="LOAD_API_KEYS"):
        elsewhere.clients(2)
    with pytest.raises(ValueError, match="http://HOST:PORT"):
        Target.of("https://example.org")
