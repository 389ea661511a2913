"""Several real processes on one port: how they share it, and what the end of one of them costs."""

import os
import shutil
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.app.lifecycle.test_shutdown_live import Clients, end
from tests.app.remote import (
    Live,
    failed_start,
    running,
    wait_for,
    wait_until_draining,
    wait_until_in_flight,
)
from tests.app.telemetry.test_accounting_live import scrape
from tests.app.test_traffic_live import put, put_at_once, reloads, versions
from tests.app.traffic import Traffic
from tests.embedded import WEIGHTS
from tests.model.native_library import needs_native

TWO = {"DRAGOMAN_PROCESSES": "2"}


@contextmanager
def running_two(folder: Path, **variables: Any) -> Iterator[Live]:
    """Two processes under a supervisor, whose files are in a folder."""
    with running(TMPDIR=str(folder), **TWO, **variables) as live:
        with ExitStack() as until_both_accept:
            wait_for(lambda: both_accept(live, until_both_accept))
        yield live


def both_accept(live: Live, connections: ExitStack) -> bool:
    """Open one more connection; returns whether both processes have accepted one.

    The service is ready as soon as one process is; the other one may still load its checkpoints.
    """
    connections.enter_context(socket.create_connection(("127.0.0.1", live.port), timeout=60))
    return all(connections_of(pid, live.port) for pid in live.processes())


def connections_of(pid: int, port: int) -> int:
    """Connections to the port that a process has open."""
    inodes = {
        fields[9]
        for fields in map(str.split, Path("/proc/net/tcp").read_text().splitlines()[1:])
        if fields[1].endswith(f":{port:04X}") and fields[3] == "01"
    }
    held = (os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir() if link.exists())
    return sum(target in {f"socket:[{inode}]" for inode in inodes} for target in held)


def test_sigterm_answers_what_each_process_has_accepted(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with running_two(tmp_path, DOUBLE_GATE=str(gate), DRAGOMAN_DRAIN_SECONDS="60") as live:
        clients = Clients(live, 8)
        assert all(connections_of(pid, live.port) for pid in live.processes())
        live.process.send_signal(signal.SIGTERM)
        wait_until_draining(live)
        gate.touch()
        assert clients.outcomes() == [(200, None)] * 8
        assert live.process.wait(timeout=60) == 0
    assert not list(tmp_path.glob("dragoman-*"))


def test_the_second_signal_ends_all_at_once(tmp_path: Path) -> None:
    slow = {"DOUBLE_GATE": str(tmp_path / "never"), "DRAGOMAN_DRAIN_SECONDS": "600"}
    with running_two(tmp_path, **slow) as live:
        clients = Clients(live, 8)
        end(live, signal.SIGTERM, signal.SIGINT)
        assert clients.outcomes() == [(503, "draining")] * 8


def test_a_killed_process_costs_its_own_requests_and_is_replaced(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with running_two(tmp_path, DOUBLE_GATE=str(gate), DRAGOMAN_DRAIN_SECONDS="60") as live:
        before = scrape(live)
        clients = Clients(live, 16)
        victim, other = live.processes()
        num_held = connections_of(victim, live.port)
        os.kill(victim, signal.SIGKILL)
        clients.wait_for_failures(num_held)
        gate.touch()
        assert [status for status, _ in clients.join()] == [200] * (16 - num_held)
        assert len(clients.failures) == num_held
        wait_for_two(live)
        assert other in live.processes()
        assert victim not in live.processes()
        wait_until_in_flight(live, 0)
        after = scrape(live)
    assert 0 < num_held < 16
    assert after["abandoned"] - before["abandoned"] == num_held
    assert after["refused"] == before["refused"]


def test_under_load_the_other_process_answers_every_request(tmp_path: Path) -> None:
    with running_two(tmp_path) as live, Traffic(live, 8) as traffic:
        for _ in range(3):
            traffic.wait_for_answers(50)
            os.kill(live.processes()[0], signal.SIGKILL)
            wait_for_two(live)
        traffic.wait_for_answers(50)
    # A client has one request at a time.
    assert traffic.outcomes.keys() <= {"200", "lost"}
    assert traffic.outcomes["lost"] <= 3 * 8


def test_a_process_whose_event_loop_stalls_is_replaced(tmp_path: Path) -> None:
    with running_two(tmp_path, DRAGOMAN_WATCHDOG_SECONDS="5") as live:
        stalled, other = live.processes()
        os.kill(stalled, signal.SIGSTOP)
        wait_until_gone(live, stalled)
        wait_for_two(live)
        assert other in live.processes()
        assert live.translate()[0] == 200
    assert any('"a process is stuck"' in line for line in live.log)


def test_a_process_with_a_stuck_engine_is_replaced(tmp_path: Path) -> None:
    variables = {"DOUBLE_GATE": str(tmp_path / "never"), "DRAGOMAN_WATCHDOG_SECONDS": "2"}
    with running_two(tmp_path, **variables, DRAGOMAN_DRAIN_SECONDS="0") as live:
        before = live.processes()
        clients = Clients(live, 1)
        wait_until_gone(live, *before)
        assert clients.outcomes() == [(503, "draining")]
        wait_for_two(live)
        assert len(set(before) & set(live.processes())) == 1


def test_without_their_supervisor_the_processes_end(tmp_path: Path) -> None:
    with running_two(tmp_path) as live:
        processes = live.processes()
        live.process.kill()
        wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in processes))


def test_two_processes_load_new_checkpoints_together(tiny_checkpoint: Path, tmp_path: Path) -> None:
    folder, files = put(tmp_path / "models" / "served", "v1", tiny_checkpoint), tmp_path / "files"
    files.mkdir()
    variables = {"DRAGOMAN_CHECKPOINT": str(tmp_path / "models"), "DRAGOMAN_WATCH_SECONDS": "0"}
    with running_two(files, real=True, **variables) as live, Traffic(live, 6) as traffic:
        traffic.wait_for_answers(20)
        put(folder, "v2", tiny_checkpoint)
        live.process.send_signal(signal.SIGHUP)
        wait_for(lambda: reloads(live, "replaced") == 2)
        content = bytearray((folder / WEIGHTS).read_bytes())
        content[-5000] ^= 1
        put_at_once(folder / WEIGHTS, bytes(content))
        live.process.send_signal(signal.SIGHUP)
        wait_for(lambda: reloads(live, "failed") == 2)
        traffic.wait_for_answers(10)
    assert traffic.outcomes.keys() == {"200"}
    assert {version.partition("+")[0] for version in traffic.versions} == {"v1", "v2"}


def test_a_process_that_starts_with_a_new_checkpoint_makes_the_others_load_it(
    tiny_checkpoint: Path, tmp_path: Path
) -> None:
    folder, files = put(tmp_path / "models" / "served", "v1", tiny_checkpoint), tmp_path / "files"
    files.mkdir()
    variables = {"DRAGOMAN_CHECKPOINT": str(tmp_path / "models"), "DRAGOMAN_WATCH_SECONDS": "0"}
    with running_two(files, real=True, **variables) as live:
        put(folder, "v2", tiny_checkpoint)
        os.kill(live.processes()[0], signal.SIGKILL)
        wait_for(lambda: reloads(live, "replaced") == 1)
        wait_for(lambda: versions(live) == ["v2"])


@needs_native
def test_the_processes_map_the_same_weights(tmp_path: Path) -> None:
    with running_two(tmp_path, real=True) as live:
        victim, other = live.processes()
        shared = weights_of(other)
        assert len(shared) == 1
        assert weights_of(victim) == shared
        os.kill(victim, signal.SIGKILL)
        wait_until_gone(live, victim)
        wait_for(lambda: sum(bool(weights_of(pid)) for pid in live.processes()) == 2)
        assert [weights_of(pid) for pid in live.processes()] == [shared, shared]


def test_a_setting_that_cannot_work_ends_the_start_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("secret")
    status, (line,) = failed_start(DRAGOMAN_API_KEYS_FILE=str(tmp_path / "keys"), **TWO)
    assert status == 2
    assert line.startswith("dragoman: DRAGOMAN_API_KEYS_FILE must be")


def test_a_limit_that_is_too_low_for_each_process_is_named_as_it_was_set(tiny_checkpoint: Path) -> None:
    limit = {"DRAGOMAN_CHECKPOINT": str(tiny_checkpoint), "DRAGOMAN_MAX_MODEL_BYTES": "2000"}
    _, (line,) = failed_start(**limit, **TWO)
    begin = "dragoman: DRAGOMAN_MAX_MODEL_BYTES must be in each of the 2 processes that share it at least "
    assert line.startswith(begin)
    assert "but is 2000 instead" in line


def test_a_damaged_checkpoint_ends_the_start_with_one_line(tiny_checkpoint: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_checkpoint, tmp_path / "damaged")
    weights = (folder / WEIGHTS).read_bytes()
    put_at_once(folder / WEIGHTS, weights[: len(weights) // 2])
    status, (line,) = failed_start(DRAGOMAN_CHECKPOINT=str(folder), **TWO)
    assert status == 1
    assert line.startswith("dragoman: ")
    assert WEIGHTS in line


def weights_of(pid: int) -> set[str]:
    """The inodes of the memory files of weights that a process maps."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {line.split()[4] for line in lines if "memfd:dragoman-weights" in line}


def wait_for_two(live: Live) -> None:
    """Wait until two processes serve."""
    wait_for(lambda: len(live.processes()) == 2 and "dragoman_workers 2.0" in live.get("metrics"))


def wait_until_gone(live: Live, *pids: int) -> None:
    """Wait until one of them no longer runs."""
    wait_for(lambda: not set(pids) <= set(live.processes()))


def test_files_and_counts_of_one_process_are_known_to_the_others(tmp_path: Path) -> None:
    with running_two(tmp_path) as live, ExitStack() as open_until_the_end:
        clients = list[httpx.Client]()
        while not clients or not all(connections_of(pid, live.port) for pid in live.processes()):
            clients.append(open_until_the_end.enter_context(httpx.Client(base_url=live.url, timeout=60)))
            assert clients[-1].get("/livez").is_success
        # The last one was the first that another process accepted.
        first, second = clients[0], clients[-1]
        file = {"file": ("a.txt", b"one two")}
        form = {"target_lang": "FR", "source_lang": "EN"}
        document = first.post("/v2/document", files=file, data=form).json()
        path, key = f"/v2/document/{document['document_id']}", {"document_key": document["document_key"]}
        wait_for(lambda: second.post(path, json=key).json()["status"] == "done")
        assert second.post(f"{path}/result", json=key).content == b"ONE TWO"
        assert first.post(f"{path}/result", json=key).json()["code"] == "not_found"
        answer = first.post("/translate_file", files=file, data={"source": "en", "target": "fr"}).json()
        name = answer["translatedFileUrl"].rpartition("/")[2]
        assert second.get(f"/download_file/{name}").content == b"ONE TWO"
        assert second.get("/v2/usage").json()["character_count"] == len("one two")
