"""Probes and metrics answer while the service is full."""

import json
import threading
from pathlib import Path

from tests.app.remote import running, wait_until_in_flight


def test_they_answer_while_the_service_is_full(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with running(DOUBLE_GATE=str(gate), DRAGOMAN_MAX_REQUESTS="1") as live:
        client = threading.Thread(target=live.translate)
        client.start()
        wait_until_in_flight(live, 1)
        assert live.translate()[0] == 503
        assert json.loads(live.get("livez"))
        assert json.loads(live.get("readyz"))
        assert "dragoman_requests_in_flight 2.0" in live.get("metrics")
        gate.touch()
        client.join()
