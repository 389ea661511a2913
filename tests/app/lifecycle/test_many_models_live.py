"""The real service with many tiny checkpoints in little memory: nothing is lost while they come and go."""

import json
import os
import shutil
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.app.remote import Live, running, wait_for
from tests.app.test_equivalence_pivot import altered

CODES = ("aa", "bb", "cc", "dd", "ee", "ff", "gg", "hh")
# For three of them: each has two engines of 2 MiB.
LIMIT = 15_000_000


def add(tiny: Path, folder: Path, code: str) -> None:
    """A checkpoint from English into another language, which appears whole."""
    whole = altered(
        tiny, folder.with_name(f".{code}"), {code: "<2fr>"}, name=f"en-{code}", pairs=[["en", code]]
    )
    whole.rename(folder / code)


@pytest.fixture(scope="module")
def folder(tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many")
    for code in CODES:
        add(tiny_checkpoint, folder, code)
    return folder


@pytest.fixture(scope="module")
def many(folder: Path) -> Iterator[Live]:
    with serving(folder) as live:
        yield live


def serving(folder: Path) -> AbstractContextManager[Live]:
    return running(
        real=True,
        DRAGOMAN_CHECKPOINT=str(folder),
        DRAGOMAN_DEVICE="cpu",
        DRAGOMAN_WORKERS="2",
        DRAGOMAN_MAX_MODEL_BYTES=str(LIMIT),
        DRAGOMAN_WATCH_SECONDS="0.2",
        DRAGOMAN_REQUEST_TIMEOUT_MS="300000",
    )


def ask(live: Live, code: str) -> tuple[int, dict[str, str]]:
    return live.translate("Good morning. The cat sleeps.", target=code)


def memory(live: Live) -> float:
    return sum(value for name, value in live.samples().items() if name.startswith("model_memory_bytes"))


def listed(live: Live) -> dict[str, dict[str, object]]:
    return {model["name"]: model for model in json.loads(live.get("models"))}


def test_all_are_listed_and_the_first_requests_load_one_once(many: Live) -> None:
    models = listed(many)
    assert set(models) == {f"en-{code}" for code in CODES}
    assert not any(model["loaded"] or model["pinned"] for model in models.values())
    assert {each["code"] for each in json.loads(many.get("languages"))} == {"en", *CODES}
    with ThreadPoolExecutor(8) as clients:
        answers = list(clients.map(lambda _: ask(many, "aa"), range(16)))
    assert {answer[0] for answer in answers} == {200}
    assert {answer[1]["translatedText"] for answer in answers} == {"Bonjour. Le chat dort."}
    assert many.samples()['model_loads_total{outcome="loaded"}'] == 1
    assert [name for name, model in listed(many).items() if model["loaded"]] == ["en-aa"]


def test_no_request_is_lost_while_models_come_and_go(many: Live, folder: Path, tiny_checkpoint: Path) -> None:
    """The list changes twice in the middle."""
    outcomes: Counter[int] = Counter()
    is_over = threading.Event()

    def go_on(number: int) -> None:
        while not is_over.is_set():
            for code in CODES[number:] + CODES[:number]:
                status, answer = ask(many, code)
                assert answer["model"] == f"en-{code}"
                outcomes[status] += 1
                assert memory(many) <= LIMIT

    with ThreadPoolExecutor(8) as clients:
        running_clients = [clients.submit(go_on, number) for number in range(8)]
        try:
            add(tiny_checkpoint, folder, "new")
            wait_for(lambda: "en-new" in listed(many))
            assert ask(many, "new")[0] == 200
            shutil.rmtree(folder / "new")
            wait_for(lambda: "en-new" not in listed(many))
            assert ask(many, "new")[0] == 400
        finally:
            is_over.set()
        for each in running_clients:
            each.result()
    assert set(outcomes) == {200}
    assert sum(outcomes.values()) >= 64
    found = many.samples()
    assert found['model_evictions_total{reason="memory"}'] > len(CODES)
    ended = [found[f'outcomes_total{{outcome="{each}"}}'] for each in ("answered", "refused", "abandoned")]
    assert found["accepted_total"] == sum(ended) + found["requests_in_flight"]


def test_a_damaged_model_is_refused_and_served_once_it_is_whole(many: Live, folder: Path) -> None:
    weights = folder / "hh" / "model.safetensors"
    content = weights.read_bytes()
    # Until none of its engines is loaded.
    for code in CODES[:4]:
        ask(many, code)
    status = weights.stat()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    os.utime(weights, ns=(status.st_atime_ns, status.st_mtime_ns))  # so that no reload notices
    found, body = ask(many, "hh")
    assert (found, body["code"]) == (503, "model_unavailable")
    assert str(folder) not in json.dumps(body)
    assert ask(many, "bb")[0] == 200
    wait_for(lambda: any("is corrupt: its SHA-256" in line for line in many.log))
    weights.write_bytes(content)
    wait_for(lambda: ask(many, "hh")[0] == 200)


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_model_that_was_replaced_before_its_first_request_is_listed_again(
    tiny_checkpoint: Path, tmp_path: Path, processes: str
) -> None:
    add(tiny_checkpoint, tmp_path, "aa")
    variables = {"DRAGOMAN_PINNED_MODELS": "none", "DRAGOMAN_PROCESSES": processes}
    with running(
        real=True, DRAGOMAN_CHECKPOINT=str(tmp_path), DRAGOMAN_WATCH_SECONDS="0", **variables
    ) as live:
        other = altered(tmp_path / "aa", tmp_path / ".other", version="2")
        shutil.rmtree(tmp_path / "aa")
        other.rename(tmp_path / "aa")
        wait_for(lambda: ask(live, "aa")[0] == 200)
        assert str(ask(live, "aa")[1]["model_version"]).startswith("2+")


def test_a_shutdown_loses_no_request_that_waits_for_its_model(folder: Path) -> None:
    def outcome(code: str) -> int:
        try:
            return ask(live, code)[0]
        except ConnectionRefusedError:
            return 0  # it came after the end

    with serving(folder) as live, ThreadPoolExecutor(8) as clients:
        answers = [clients.submit(outcome, code) for code in CODES * 20]
        wait_for(lambda: live.samples()['model_loads_total{outcome="loaded"}'] > 0)
        live.process.send_signal(signal.SIGTERM)
        outcomes = Counter(answer.result() for answer in answers)
        assert set(outcomes) <= {200, 503, 0}
        assert outcomes[200] >= 1
        assert live.process.wait(60) == 0
