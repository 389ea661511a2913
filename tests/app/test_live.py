"""The service in its own process, over real sockets."""

import time
from http.client import HTTPConnection

from tests.app.remote import JSON, REQUEST, Live


def test_an_answer_does_not_wait_for_acknowledgements(live: Live) -> None:
    connection = HTTPConnection("127.0.0.1", live.port, timeout=10)
    seconds = []
    for _ in range(50):
        began = time.monotonic()
        connection.request("POST", "/translate", REQUEST, JSON)
        assert connection.getresponse().read()
        seconds.append(time.monotonic() - began)
    connection.close()
    # Linux delays an acknowledgement by 40 ms.
    assert min(seconds) < 0.04
