"""40 clients hang up while they are decoded: their rows are free within a step, others notice nothing."""

import json
import re
import socket
import threading
import time

import pytest

from tests.app.remote import JSON, Live, running, wait_for

LEAVERS = 40
STEP_SECONDS = 0.5
WORDS = 38
STAYERS = [" ".join(f"s{i}w{j}" for j in range(WORDS)) for i in range(3)]


def body_of(text: str) -> bytes:
    return json.dumps({"q": text, "source": "en", "target": "fr"}).encode()


def send(live: Live, text: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", live.port), timeout=60)
    body = body_of(text)
    head = ("POST /translate HTTP/1.1", "Host: x", "Content-Type: application/json")
    connection.sendall("\r\n".join((*head, f"Content-Length: {len(body)}", "", "")).encode() + body)
    return connection


def values(live: Live) -> dict[str, float]:
    """Every series without a label, and with labels as written."""
    found = re.findall(r"^dragoman_(\S+) (\S+)$", live.get("metrics"), re.MULTILINE)
    return {name: float(value) for name, value in found}


def wait_until_in_flight(live: Live, count: int) -> None:
    def look() -> None:
        # The request that asks is in flight too.
        if values(live)["requests_in_flight"] != count + 1:
            raise OSError("not yet")

    wait_for(look)


def require_all_decoded(live: Live) -> None:
    """A step has begun since it was seen that more than 32 are in one, and nobody waits."""
    before = values(live)
    time.sleep(3 * STEP_SECONDS)
    after = values(live)
    count, narrow = "batch_sentences_count", 'batch_sentences_bucket{le="32.0"}'
    if after["queue_depth"] or after[narrow] != before[narrow] or after[count] == before[count]:
        raise OSError("some still wait")


@pytest.mark.slow
def test_their_rows_are_free_within_a_step_and_others_notice_nothing() -> None:
    with running(DOUBLE_SECONDS=str(STEP_SECONDS), DRAGOMAN_WORKERS="1") as live:
        answers: dict[str, tuple[int, str]] = {}

        def stay(text: str) -> None:
            status, answer = live.post(body_of(text), JSON)
            answers[text] = status, json.loads(answer)["translatedText"]

        stayers = [threading.Thread(target=stay, args=(text,)) for text in STAYERS]
        leavers = [send(live, " ".join(f"l{i}w{j}" for j in range(WORDS))) for i in range(LEAVERS)]
        for stayer in stayers:
            stayer.start()
        wait_until_in_flight(live, LEAVERS + len(STAYERS))
        wait_for(lambda: require_all_decoded(live))
        for leaver in leavers:
            leaver.close()
        wait_until_in_flight(live, len(STAYERS))
        time.sleep(STEP_SECONDS)
        before = values(live)
        for stayer in stayers:
            stayer.join()
        after = values(live)
        assert answers == {text: (200, text.upper()) for text in STAYERS}
        steps = after["batch_sentences_count"] - before["batch_sentences_count"]
        narrow = 'batch_sentences_bucket{le="4.0"}'
        assert steps > 0
        assert steps - (after[narrow] - before[narrow]) <= 1  # they left in the middle of a step
        assert after['cancelled_total{stage="decoding"}'] == LEAVERS
        assert after["requests_in_flight"] == 1
