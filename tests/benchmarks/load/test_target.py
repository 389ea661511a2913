"""The clients of the service under load."""

import pytest

from benchmarks.load.generator import Client
from benchmarks.load.target import clients_of


def test_clients_differ_by_key_or_by_address() -> None:
    url = "http://127.0.0.1:8000"
    assert clients_of(url, 2) == [Client(port=8000, address=f"127.0.0.{last}") for last in (1, 2)]
    keyed = clients_of(url, 2, ["a", "b"])
    assert keyed == [Client(port=8000, key="a"), Client(port=8000, key="b")]
    assert b"Authorization: Bearer b\r\n" in keyed[1].message("{}")


def test_elsewhere_clients_need_keys() -> None:
    elsewhere = "http://192.0.2.1"
    assert clients_of(elsewhere, 1) == [Client(host="192.0.2.1", port=80)]
    with pytest.raises(ValueError, match="LOAD_API_KEYS"):
        clients_of(elsewhere, 2)
    with pytest.raises(ValueError, match="http://HOST:PORT"):
        clients_of("https://example.org", 1)
