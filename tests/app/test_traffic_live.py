"""The real service under full load: told to end, and told to load other checkpoints."""

import json
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.app.remote import Live, failed_start, running, wait_for
from tests.app.test_equivalence_pivot import altered
from tests.app.traffic import Traffic
from tests.embedded import EMBEDDED, NAME, WEIGHTS

WATCHING: dict[str, Any] = {"real": True, "DRAGOMAN_WATCH_SECONDS": "0.25"}


def put(folder: Path, version: str, source: Path = EMBEDDED, name: str = NAME) -> Path:
    """A checkpoint of this version, appearing whole in the place of what was there."""
    whole = altered(source, folder.with_name(f".{folder.name}.{version}"), name=name, version=version)
    if folder.exists():
        shutil.rmtree(folder)
    return whole.rename(folder)


def put_at_once(file: Path, content: bytes) -> None:
    """In the place of what was there; half of it would be one more bad checkpoint."""
    unfinished = file.parent.with_name(".unfinished")
    unfinished.write_bytes(content)
    unfinished.replace(file)


def reloads(live: Live, outcome: str) -> int:
    return int(live.samples()[f'reloads_total{{outcome="{outcome}"}}'])


def versions(live: Live) -> list[str]:
    return re.findall(r'dragoman_model_info{.*version="(\w+)\+', live.get("metrics"))


def resident_bytes(live: Live) -> int:
    status = Path(f"/proc/{live.process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


@pytest.mark.slow
def test_sigterm_at_full_load_loses_no_request() -> None:
    unhurried = {"DRAGOMAN_REQUEST_TIMEOUT_MS": "300000", "DRAGOMAN_DRAIN_SECONDS": "300"}
    with running(real=True, **unhurried) as live:
        with Traffic(live, 8) as traffic:
            traffic.wait_for_answers(16)
            traffic.mark()
            live.process.send_signal(signal.SIGTERM)
            assert live.process.wait(timeout=300) == 0
            traffic.join()
        assert traffic.outcomes.keys() <= {"200", "503"}
        assert traffic.late > 0


@pytest.mark.slow
def test_new_checkpoints_are_served_without_losing_a_request(tmp_path: Path) -> None:
    folder = put(tmp_path / "served", "v1")
    with running(DRAGOMAN_CHECKPOINT=str(tmp_path), **WATCHING) as live, Traffic(live, 3) as traffic:
        traffic.wait_for_answers(5)
        put(folder, "v2")
        wait_for(lambda: reloads(live, "replaced") == 1)
        traffic.wait_for_answers(5)
        settled = resident_bytes(live)
        for number in (3, 4):
            put(folder, f"v{number}")
            if number == 4:
                live.process.send_signal(signal.SIGHUP)
            wait_for(lambda number=number: reloads(live, "replaced") == number - 1)  # type: ignore[misc]
        traffic.wait_for_answers(5)
        # The old one is let go of once it is counted as replaced.
        wait_for(lambda: resident_bytes(live) < settled + 64 * 2**20)
        wait_for(lambda: versions(live) == ["v4"])
    assert traffic.outcomes.keys() == {"200"}
    assert {version.partition("+")[0] for version in traffic.versions} >= {"v1", "v2", "v4"}


def test_a_bad_checkpoint_leaves_the_old_one_and_is_named(tiny_checkpoint: Path, tmp_path: Path) -> None:
    folder = put(tmp_path / "served", "v1", tiny_checkpoint)
    weights = folder / WEIGHTS
    with running(DRAGOMAN_CHECKPOINT=str(tmp_path), **WATCHING) as live, Traffic(live, 4) as traffic:
        content = bytearray(weights.read_bytes())
        content[-5000] ^= 1
        put_at_once(weights, content)
        wait_for(lambda: reloads(live, "failed") == 1)
        live.process.send_signal(signal.SIGHUP)
        wait_for(lambda: reloads(live, "failed") == 2)
        traffic.wait_for_answers(10)
        content[-5000] ^= 1
        put_at_once(weights, content)
        wait_for(lambda: reloads(live, "unchanged") == 1)
        failures = [json.loads(line) for line in live.log if "reload failed" in line]
    assert traffic.outcomes.keys() == {"200"}
    assert {version.partition("+")[0] for version in traffic.versions} == {"v1"}
    assert len(failures) == 2
    assert all(f"{weights} is corrupt" in failure["reason"] for failure in failures)


def test_a_half_copied_checkpoint_is_refused_and_taken_up_when_it_is_whole(
    tiny_checkpoint: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    put(tmp_path / "served", "v1", tiny_checkpoint)
    source = put(tmp_path_factory.mktemp("source") / "second", "v1", tiny_checkpoint, name="second")
    second = tmp_path / "second"
    content = (source / WEIGHTS).read_bytes()
    with running(DRAGOMAN_CHECKPOINT=str(tmp_path), **WATCHING) as live:
        second.mkdir()
        for file in source.iterdir():
            if file.name != WEIGHTS:
                shutil.copy(file, second)
        (second / WEIGHTS).write_bytes(content[: len(content) // 2])
        # A slow copy is looked at, and refused, more than once.
        wait_for(lambda: reloads(live, "failed") >= 1)
        assert len(json.loads(live.get("models"))) == 1
        (second / WEIGHTS).write_bytes(content)
        wait_for(lambda: reloads(live, "replaced") == 1)
        assert {model["name"] for model in json.loads(live.get("models"))} == {NAME, "second"}
        shutil.rmtree(second)
        wait_for(lambda: len(json.loads(live.get("models"))) == 1)


def test_a_damaged_checkpoint_never_becomes_ready(tiny_checkpoint: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_checkpoint, tmp_path / "damaged")
    content = (folder / "config.json").read_bytes()
    (folder / "config.json").write_bytes(content[: len(content) // 2].ljust(len(content), b"\0"))
    status, lines = failed_start(DRAGOMAN_CHECKPOINT=str(folder))
    assert status == 1
    assert lines[-1].startswith("dragoman: ")
    assert "config.json" in lines[-1]
    assert "Traceback" not in lines[-1]
