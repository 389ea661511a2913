"""40 clients hang up while they are decoded: their rows are free within a step, others notice nothing."""

import socket
import threading
import time
from pathlib import Path

from tests.app.remote import Live, body_of, running, wait_for, wait_until_in_flight

LEAVERS = 40
STEP_SECONDS = 0.5
WORDS = 38
LETTERS = str.maketrans("0123456789", "abcdefghij")


def sentence(kind: str, number: int) -> str:
    """Words that no other sentence has, and no digits, which would not be translated."""
    return " ".join(f"{kind}{number}w{place}" for place in range(WORDS)).translate(LETTERS)


STAYERS = [sentence("s", number) for number in range(3)]


def send(live: Live, text: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", live.port), timeout=60)
    body = body_of(text)
    head = ("POST /translate HTTP/1.1", "Host: x", "Content-Type: application/json")
    connection.sendall("\r\n".join((*head, f"Content-Length: {len(body)}", "", "")).encode() + body)
    return connection


def all_are_decoded(live: Live) -> bool:
    """Returns whether every step since the last look had more than 32 sentences, and none waits."""
    before = live.samples()
    time.sleep(3 * STEP_SECONDS)
    after = live.samples()
    count, narrow = "batch_sentences_count", 'batch_sentences_bucket{le="32.0"}'
    return not after["queue_depth"] and after[narrow] == before[narrow] and after[count] > before[count]


def test_rows_of_clients_that_left_are_free_within_a_step_and_others_are_unchanged(tmp_path: Path) -> None:
    gate, hurry = tmp_path / "gate", tmp_path / "hurry"
    pace = {"DOUBLE_SECONDS": str(STEP_SECONDS), "DOUBLE_GATE": str(gate), "DOUBLE_HURRY": str(hurry)}
    with running(**pace, DRAGOMAN_WORKERS="1") as live:
        answers: dict[str, tuple[int, str]] = {}

        def stay(text: str) -> None:
            status, answer = live.translate(text)
            answers[text] = status, answer["translatedText"]

        stayers = [threading.Thread(target=stay, args=(text,)) for text in STAYERS]
        leavers = [send(live, sentence("l", number)) for number in range(LEAVERS)]
        for stayer in stayers:
            stayer.start()
        wait_until_in_flight(live, LEAVERS + len(STAYERS))
        gate.touch()
        wait_for(lambda: all_are_decoded(live))
        gate.unlink()  # The step in progress does not end before all have left.
        for leaver in leavers:
            leaver.close()
        wait_until_in_flight(live, len(STAYERS))
        before = live.samples()
        hurry.touch()
        gate.touch()
        for stayer in stayers:
            stayer.join()
        after = live.samples()
        assert answers == {text: (200, text.upper()) for text in STAYERS}
        steps = after["batch_sentences_count"] - before["batch_sentences_count"]
        narrow = 'batch_sentences_bucket{le="4.0"}'
        assert steps > 1
        assert steps - (after[narrow] - before[narrow]) <= 1  # the step in which they left
        assert after['cancelled_total{stage="decoding"}'] == LEAVERS
        assert after["requests_in_flight"] == 1
