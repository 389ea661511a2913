"""The registry with a backend that loads when told: leases, memory, back-off, and a changing list."""

import asyncio
import dataclasses
import math
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from unittest.mock import Mock

import pytest

from app.backend import LoadedModel, Model
from app.errors import DeadlinePassedError, DrainingError, ModelUnavailableError
from app.lifecycle.registry import ModelRegistry, pinned_models
from app.telemetry.metrics import Metrics
from model.errors import CheckpointError, ConfigError
from tests.app.conftest import until
from tests.app.double import DoubleBackend

pytestmark = pytest.mark.anyio
NAMES = ("ab", "bc", "cd", "de")


class Models(DoubleBackend):
    """Models of 100 bytes; records what is loaded and closed.

    Attributes:
        log: `+name` for each load that began, `-name` for each model that was closed.
        broken: Names that cannot be loaded.
        open: Loads wait until it is set.
        loaded_bytes: Memory of a model once it is loaded; 100 is what was estimated.
    """

    def __init__(self, *names: str) -> None:
        super().__init__(*((name, ((name[0] * 2, name[1] * 2),)) for name in names or NAMES))
        self.log: list[str] = []
        self.broken: set[str] = set()
        self.open = threading.Event()
        self.open.set()
        self.loaded_bytes = 100

    def load(self, model: Model) -> LoadedModel:
        name = model.card.name
        self.log.append(f"+{name}")
        assert self.open.wait(timeout=30)
        if name in self.broken:
            raise CheckpointError(f"{name} is corrupt")
        self.engine(name, 0).close = lambda: self.log.append(f"-{name}")  # type: ignore[method-assign]
        return dataclasses.replace(super().load(model), memory_bytes=self.loaded_bytes)


@pytest.fixture
def backend() -> Models:
    return Models()


@asynccontextmanager
async def registry_of(
    backend: Models, *, pinned: Sequence[str] = (), max_bytes: int = 0, idle_seconds: float = 0.0
) -> AsyncIterator[ModelRegistry]:
    async def agree(_: Sequence[Model]) -> None:
        pass

    registry = ModelRegistry(
        backend,
        Metrics(),
        pinned=pinned,
        max_bytes=max_bytes,
        idle_seconds=idle_seconds,
        wait_until_unused=lambda _: None,
        agree=agree,
        list_again=Mock(),
    )
    await registry.update()
    try:
        yield registry
    finally:
        backend.open.set()
        registry.close()


def named(registry: ModelRegistry, *names: str) -> list[Model]:
    return [model for model in registry.models if model.card.name in names]


def loaded(registry: ModelRegistry) -> str:
    return " ".join(model.card.name for model in registry.models if model.loaded is not None)


async def use(registry: ModelRegistry, *names: str, seconds: float = 30.0) -> None:
    async with registry.lease(named(registry, *names), time.monotonic() + seconds):
        assert all(model.loaded is not None for model in named(registry, *names))


def sample(registry: ModelRegistry, name: str, **labels: str) -> float | None:
    return registry._metrics.registry.get_sample_value(f"dragoman_{name}", labels)


# Loading at the first use


async def test_first_requests_at_once_load_once_and_do_not_hold_up_others(backend: Models) -> None:
    async with registry_of(backend, pinned=("ab",)) as registry:
        backend.open.clear()
        waiting = [asyncio.create_task(use(registry, "bc")) for _ in range(10)]
        await until(lambda: "+bc" in backend.log)
        await use(registry, "ab")
        waiting[0].cancel()
        await asyncio.sleep(0)
        assert [task.done() for task in waiting] == [True] + [False] * 9
        backend.open.set()
        await asyncio.gather(*waiting[1:])
        assert backend.log == ["+ab", "+bc"]


async def test_a_failed_load_fails_its_requests_alone_and_is_tried_again_later(
    backend: Models, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 0.0
    monkeypatch.setattr("app.lifecycle.registry.monotonic", lambda: now)
    backend.broken.add("bc")
    async with registry_of(backend) as registry:
        for pause in (1, 2, 4, 8, 16, 32, 60, 60):
            both = asyncio.gather(use(registry, "bc"), use(registry, "bc"), return_exceptions=True)
            await use(registry, "ab")
            for failure in await both:
                assert isinstance(failure, ModelUnavailableError)
                assert (str(failure), failure.retry_after) == (
                    f"model bc cannot be loaded now; try again in {pause} s",
                    pause,
                )
            now += pause - 0.5
            with pytest.raises(ModelUnavailableError):
                await use(registry, "bc")
            now += 0.5
        assert backend.log.count("+bc") == 8
        backend.broken.clear()
        await use(registry, "bc")
        assert {record.__dict__["reason"] for record in caplog.records if record.levelname == "ERROR"} == {
            "bc is corrupt"
        }
        assert sample(registry, "model_loads_total", outcome="failed") == 8


async def test_a_reload_ends_the_back_off(backend: Models) -> None:
    backend.broken.add("bc")
    async with registry_of(backend) as registry:
        with pytest.raises(ModelUnavailableError):
            await use(registry, "bc")
        backend.broken.clear()
        assert not await registry.update()
        await use(registry, "bc")


# The limit of memory


async def test_the_least_recently_used_leave_for_others(backend: Models) -> None:
    async with registry_of(backend, max_bytes=250) as registry:
        for name in ("ab", "bc", "ab", "cd"):
            await use(registry, name)
        assert loaded(registry) == "ab cd"
        await use(registry, "de")
        assert loaded(registry) == "cd de"
        assert backend.log == ["+ab", "+bc", "-bc", "+cd", "-ab", "+de"]
        assert sample(registry, "model_evictions_total", reason="memory") == 2


async def test_pinned_models_and_those_in_use_stay(backend: Models) -> None:
    async with registry_of(backend, pinned=("ab",), max_bytes=250) as registry:
        async with registry.lease(named(registry, "bc"), math.inf):
            waiting = asyncio.create_task(use(registry, "cd"))
            await asyncio.sleep(0.01)
            assert (loaded(registry), waiting.done()) == ("ab bc", False)
            await use(registry, "bc")
        await waiting
        assert loaded(registry) == "ab cd"


async def test_a_request_that_gives_up_waiting_for_memory_leaves_nothing(backend: Models) -> None:
    async with registry_of(backend, max_bytes=100) as registry:
        async with registry.lease(named(registry, "ab"), math.inf):
            for _ in range(3):
                with pytest.raises(DeadlinePassedError):
                    await use(registry, "bc", seconds=0.001)
        assert (registry._waiting, loaded(registry)) == ([], "ab")
        await use(registry, "cd")
        assert backend.log == ["+ab", "-ab", "+cd"]


async def test_a_request_that_gives_up_does_not_hold_up_the_next(
    backend: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.lifecycle.registry._PATIENCE_SECONDS", 0.05)
    async with (
        registry_of(backend, max_bytes=200) as registry,
        registry.lease(named(registry, "ab"), math.inf),
    ):
        starving = asyncio.create_task(use(registry, "bc", "cd", seconds=0.2))
        await asyncio.sleep(0.1)
        behind = asyncio.create_task(use(registry, "de"))
        with pytest.raises(DeadlinePassedError):
            await starving
        async with asyncio.timeout(60):
            await behind


async def test_memory_that_is_always_in_use_is_given_to_the_one_that_has_waited_longest(
    backend: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.lifecycle.registry._PATIENCE_SECONDS", 0.05)
    async with registry_of(backend, pinned=("de",), max_bytes=200) as registry:
        is_over = False

        async def go_on(pause: float) -> None:
            while not is_over:
                async with registry.lease(named(registry, "ab"), math.inf):
                    await asyncio.sleep(0.01)
                await asyncio.sleep(pause)

        busy = [asyncio.create_task(go_on(pause)) for pause in (0, 0.001, 0.002, 0.003)]
        await until(lambda: loaded(registry) == "ab de")
        async with asyncio.timeout(60):
            await use(registry, "bc")
            await use(registry, "de")
        is_over = True
        await asyncio.gather(*busy)


async def test_a_limit_that_is_too_low_is_refused_by_name(backend: Models) -> None:
    for pinned, max_bytes, needed in (((), 99, 100), (("ab", "bc"), 299, 300), (("all",), 399, 400)):
        with pytest.raises(ConfigError, match=f"at least {needed}, as [a-e]+ and the pinned"):
            async with registry_of(backend, pinned=pinned, max_bytes=max_bytes):
                pass
    assert backend.log == []


async def test_the_limit_that_the_error_asks_for_serves_models_that_turn_out_larger(backend: Models) -> None:
    backend.loaded_bytes = 130
    async with registry_of(backend, pinned=("ab",), max_bytes=200) as registry:
        for name in ("bc", "cd", "ab", "bc"):
            await use(registry, name)
        assert loaded(registry) == "ab bc"
        assert backend.log == ["+ab", "+bc", "-bc", "+cd", "-cd", "+bc"]


async def test_requests_for_several_models_never_wait_for_each_other(backend: Models) -> None:
    async with registry_of(backend, max_bytes=200) as registry:
        pairs = [("ab", "bc"), ("bc", "cd"), ("cd", "de"), ("ab", "de")] * 25
        async with asyncio.timeout(20):
            await asyncio.gather(*(use(registry, *pair) for pair in pairs))
        assert not any(entry.uses for entry in registry._entries.values())


async def test_a_model_is_closed_after_the_workers_let_go_of_it_and_before_its_memory_is_used(
    backend: Models,
) -> None:
    is_free = threading.Event()
    async with registry_of(backend, max_bytes=100) as registry:
        registry._wait_until_unused = lambda _: is_free.wait(10)  # type: ignore[assignment, return-value]
        await use(registry, "ab")
        following = asyncio.create_task(use(registry, "bc"))
        await asyncio.sleep(0.02)
        assert (backend.log, loaded(registry)) == (["+ab"], "")
        is_free.set()
        await following
        assert backend.log == ["+ab", "-ab", "+bc"]


# Idle models


async def test_an_idle_model_is_dropped_and_a_pinned_one_is_not(backend: Models) -> None:
    async with registry_of(backend, pinned=("ab",), idle_seconds=0.05) as registry:
        async with registry.lease(named(registry, "bc"), math.inf):
            await asyncio.sleep(0.1)
            assert loaded(registry) == "ab bc"
        await until(lambda: loaded(registry) == "ab")
        await until(lambda: backend.log == ["+ab", "+bc", "-bc"])
        assert sample(registry, "model_evictions_total", reason="idle") == 1


# A changing list


async def test_without_a_thread_models_are_loaded_and_dropped_all_the_same(
    backend: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async with registry_of(backend) as registry:
        monkeypatch.setattr(threading.Thread, "start", fail)
        await use(registry, "ab")
        await registry._drop(registry._entries[named(registry, "ab")[0]], "removed")
        assert (loaded(registry), backend.log) == ("", ["+ab", "-ab"])


async def test_new_models_are_listed_and_removed_ones_dropped_when_they_are_free(backend: Models) -> None:
    async with registry_of(backend) as registry, AsyncExitStack() as stack:
        removed = named(registry, "ab")
        await stack.enter_async_context(registry.lease(removed, math.inf))
        await use(registry, "bc")
        kept = named(registry, "bc")
        backend._models = Models("bc", "xy")._models
        backend.engines |= Models("xy").engines
        assert await registry.update()
        assert [model.card.name for model in registry.models] == ["bc", "xy"]
        assert named(registry, "bc") == kept
        await stack.aclose()
        assert removed[0].loaded is not None  # a request that began before may need it for its next hop
        await stack.enter_async_context(registry.lease(removed, math.inf))
        registry.drop_removed()
        assert removed[0].loaded is not None
        await stack.aclose()
        await until(lambda: backend.log == ["+ab", "+bc", "-ab"])
        await use(registry, "xy")
        assert not await registry.update()


async def test_a_new_version_of_a_loaded_model_is_loaded_before_the_list_changes(backend: Models) -> None:
    async with registry_of(backend) as registry:
        await use(registry, "ab")
        before = registry.models
        backend._models = [dataclasses.replace(model, checksum="d" * 64) for model in backend._models]
        backend.broken.add("ab")
        with pytest.raises(CheckpointError, match="ab is corrupt"):
            await registry.update()
        assert (registry.models, loaded(registry)) == (before, "ab")
        backend.broken.clear()
        assert await registry.update()
        assert loaded(registry) == "ab"
        assert named(registry, "ab")[0].version == "1+dddddddd"
        registry.drop_removed()
        await until(lambda: backend.log == ["+ab", "+ab", "+ab", "-ab"])


async def test_damaged_files_of_a_loaded_model_change_nothing(
    backend: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(model: Model) -> None:
        raise CheckpointError(f"{model.card.name} is corrupt")

    async with registry_of(backend) as registry:
        monkeypatch.setattr(backend, "verify", fail)
        assert not await registry.update()
        await use(registry, "cd")
        with pytest.raises(CheckpointError, match="cd is corrupt"):
            await registry.update()
        await use(registry, "cd")


async def test_at_the_end_waiting_requests_are_refused_and_late_loads_closed(backend: Models) -> None:
    async with registry_of(backend, max_bytes=100) as registry:
        backend.open.clear()
        loading = asyncio.create_task(use(registry, "ab"))
        await until(lambda: backend.log == ["+ab"])
        waiting = asyncio.create_task(use(registry, "bc"))
        await asyncio.sleep(0)
        registry.close()
        with pytest.raises(DrainingError):
            await waiting
        backend.open.set()
        with pytest.raises(ModelUnavailableError):
            await loading
        assert backend.log == ["+ab", "-ab"]


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("all",), "de-en en-fr fr-es"),
        ((), ""),
        (("en-fr",), "en-fr"),
        (("de-fr",), "de-en en-fr"),
        (("de-en", "fr-es"), "de-en fr-es"),
    ],
)
async def test_names_and_pairs_say_what_is_pinned(names: tuple[str, ...], found: str) -> None:
    checkpoints = [(name, (tuple(name.split("-")),)) for name in ("de-en", "en-fr", "fr-es")]
    models = DoubleBackend(*checkpoints).models()  # type: ignore[arg-type]
    assert sorted(model.card.name for model in pinned_models(models, names)) == found.split()


async def test_a_name_that_pins_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="or pairs such as `en-fr`") as refusal:
        pinned_models(DoubleBackend().models(), ("tiny", "en-xx"))
    assert (refusal.value.field, refusal.value.value) == ("pinned_models", "en-xx")
