"""The registry of models: lists all of them, and keeps in memory those that are pinned or in use.

A model that is not pinned is loaded when a request asks for it. It is dropped when it was idle for long, or
when another one needs its memory and it was used least recently. A model on which a request holds a lease is
never dropped. All methods are for the event loop only.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import monotonic

from app.backend import Backend, LoadedModel, Model, load_verified
from app.background import in_background, release_memory
from app.errors import DeadlinePassedError, DrainingError, ModelUnavailableError
from app.telemetry.logs import describe_failure
from app.telemetry.metrics import EvictionReason, Metrics
from app.telemetry.timings import current_timings
from app.translation.catalogue import Catalogue
from model.errors import ConfigError, ReplacedCheckpointError, TextTooLongError

logger = logging.getLogger(__name__)

# Each load may need a core, and as much memory again as the model.
_PARALLEL_LOADS = 4
# After so long a wait for memory, requests for other models that are not pinned wait too.
_PATIENCE_SECONDS = 1.0
_FIRST_BACKOFF_SECONDS = 1.0
_LONGEST_BACKOFF_SECONDS = 60.0


@dataclass(eq=False)
class _Entry:
    """The registry's entry of one model.

    Attributes:
        model: The model.
        uses: Leases on it.
        used_at: When the last lease ended, seconds of the monotonic clock.
        loading: Loads it; None if it is loaded, or nothing asks for it.
        failures: How often loading has failed in a row.
        retry_at: When it may be loaded again, on the same clock.
        idling: Drops it once it was idle for long.
    """

    model: Model
    uses: int = 0
    used_at: float = 0.0
    loading: asyncio.Task[None] | None = None
    failures: int = 0
    retry_at: float = 0.0
    idling: asyncio.TimerHandle | None = None

    @property
    def is_resident(self) -> bool:
        """Whether it is in memory, or will be."""
        return self.model.loaded is not None or self.loading is not None


@dataclass(eq=False)
class _Waiter:
    """A request that waits for memory, and since when."""

    entries: Sequence[_Entry]
    since: float
    granted: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class ModelRegistry:
    """Lists the models of a backend, and hands out leases on them.

    Args:
        backend: Lists and loads models.
        metrics: Where loads and evictions are counted.
        pinned: Names of models or pairs that are always in memory; `all` for every model.
        max_bytes: Most memory of all models; 0 for no limit.
        idle_seconds: Seconds that a model is kept without a request; 0 keeps it.
        wait_until_unused: Blocks until no worker uses the engines of a model.
        agree: Is told the models before they replace those that were listed; raises to leave them.
        list_again: Is called when a model was replaced since it was listed, and so cannot be loaded.

    Attributes:
        models: All models, the preferred one of a language pair first.
    """

    def __init__(
        self,
        backend: Backend,
        metrics: Metrics,
        *,
        pinned: Sequence[str],
        max_bytes: int,
        idle_seconds: float,
        wait_until_unused: Callable[[Model], None],
        agree: Callable[[Sequence[Model]], Awaitable[None]],
        list_again: Callable[[], None],
    ) -> None:
        self.models: tuple[Model, ...] = ()
        self._backend = backend
        self._metrics = metrics
        self._pinned = pinned
        self._max_bytes = max_bytes
        self._idle_seconds = idle_seconds
        self._wait_until_unused = wait_until_unused
        self._agree = agree
        self._list_again = list_again
        self._entries: dict[Model, _Entry] = {}
        self._waiting: list[_Waiter] = []
        self._load_slots = asyncio.Semaphore(_PARALLEL_LOADS)
        self._keeps_removed = False
        self._is_closed = False

    async def update(self) -> bool:
        """List the models again.

        Pinned models, and new versions of loaded models, are loaded before the list changes. Models that were
        removed or replaced stay until `drop_removed`.

        Returns:
            Whether the list has changed.

        Raises:
            Exception: Why listing or loading failed; nothing has changed then.
        """
        listed = await in_background(self._backend.list_models)
        known = {_identity(model): model for model in self.models}
        models = tuple(known.get(_identity(model), model) for model in listed)
        pinned = pinned_models(models, self._pinned)
        self._require_memory(models, pinned)
        for model in models:
            if model.loaded is not None:
                await in_background(partial(self._backend.verify, model))
        loaded = await self._load_all(self._models_due(models, pinned), models)
        is_changed = models != self.models
        self.models, self._keeps_removed = models, is_changed
        for model in models:
            model.is_pinned = model in pinned
            self._entry(model).retry_at = 0.0
        for model, each in loaded.items():
            self._set_loaded(self._entry(model), each)
        self._make_space(0)
        self._metrics.list_models(models, self._max_bytes)
        self._metrics.show_models(models)
        return is_changed

    def _models_due(self, models: Iterable[Model], pinned: Collection[Model]) -> list[Model]:
        """Returns what to load before the list changes: new versions of loaded models, and pinned models."""
        loaded_names = {model.card.name for model in self.models if model.loaded is not None}
        return [
            model
            for model in models
            if (model not in self._entries and model.card.name in loaded_names)
            or (model in pinned and model.loaded is None)
        ]

    def drop_removed(self) -> None:
        """Drop models that are no longer listed; those in use when their last lease ends."""
        self._keeps_removed = False
        for entry in list(self._entries.values()):
            if entry.model not in self.models:
                self._drop_if_removed(entry)

    def lease(self, models: Collection[Model], deadline: float) -> "_Lease":
        """See Leases."""
        return _Lease(self, [self._entry(model) for model in models], deadline)

    async def begin_lease(self, entries: Sequence[_Entry], deadline: float) -> None:
        """Begin a lease, once its models are loaded; see Leases."""
        if self._may_overtake(entries) and all(entry.model.loaded is not None for entry in entries):
            self._reserve(entries)
            return
        try:
            async with asyncio.timeout_at(deadline):
                with current_timings().during("load"):
                    await self._reserve_and_load(entries)
        except TimeoutError:
            raise DeadlinePassedError from None

    def cancel_all(self) -> None:
        """Reject the requests that wait for memory: the process must end now."""
        for waiter in self._waiting:
            if not waiter.granted.done():
                waiter.granted.set_exception(DrainingError())
        self._waiting.clear()

    def close(self) -> None:
        """Free the memory of all models; no worker uses them any more."""
        self._is_closed = True
        self.cancel_all()
        for entry in self._entries.values():
            if entry.idling is not None:
                entry.idling.cancel()
            if entry.model.loaded is not None:
                self._close(entry.model, [entry.model.loaded])
                entry.model.loaded = None

    async def _reserve_and_load(self, entries: Sequence[_Entry]) -> None:
        if not (self._may_overtake(entries) and self._reserve(entries)):
            await self._wait_for_memory(entries)
        try:
            for entry in entries:
                if entry.loading is not None:
                    await asyncio.wait([entry.loading])
                if entry.model.loaded is None:
                    pause = max(entry.retry_at - monotonic(), 0.0)
                    raise ModelUnavailableError(entry.model.card.name, pause)
        except BaseException:
            self.end_lease(entries)
            raise

    async def _wait_for_memory(self, entries: Sequence[_Entry]) -> None:
        """Wait until the memory for models is reserved."""
        self._require_fitting(entries)
        waiter = _Waiter(entries, monotonic())
        self._waiting.append(waiter)
        try:
            await waiter.granted
        except asyncio.CancelledError:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
                self._serve_waiting()
            elif not waiter.granted.cancelled() and waiter.granted.exception() is None:
                self.end_lease(entries)
            raise

    def _may_overtake(self, entries: Iterable[_Entry]) -> bool:
        """Returns whether a request may have its models before those that wait for memory.

        A request for pinned models always may, others until the first has waited for _PATIENCE_SECONDS.
        """
        is_starving = bool(self._waiting) and monotonic() - self._waiting[0].since >= _PATIENCE_SECONDS
        return not is_starving or all(entry.model.is_pinned for entry in entries)

    def _serve_waiting(self) -> None:
        """Reserve memory for waiting requests, first come, first served if the first has waited for long."""
        for waiter in list(self._waiting):
            if waiter.granted.done():
                continue
            if self._reserve(waiter.entries):
                self._waiting.remove(waiter)
                waiter.granted.set_result(None)
            elif not self._may_overtake(waiter.entries):
                return

    def _reserve(self, entries: Sequence[_Entry]) -> bool:
        """Take leases on models, and begin to load the missing ones if there is memory for them.

        Returns:
            Whether there is; otherwise nothing has happened.
        """
        now = monotonic()
        missing = [entry for entry in entries if not entry.is_resident and entry.retry_at <= now]
        closing = self._make_space(_total_bytes(missing), entries) if missing else []
        if closing is None:
            return False
        for entry in missing:
            entry.loading = asyncio.create_task(self._load(entry, closing))
        for entry in entries:
            entry.uses += 1
            if entry.idling is not None:
                entry.idling.cancel()
        return True

    def end_lease(self, entries: Iterable[_Entry]) -> None:
        """End a lease."""
        for entry in entries:
            entry.uses -= 1
            entry.used_at = monotonic()
            self._drop_when_idle(entry)
        self._serve_waiting()

    def _drop_when_idle(self, entry: _Entry) -> None:
        """Drop a model without leases after its idle time, or at once if it is no longer listed."""
        if entry.uses or self._is_closed:
            return
        if entry.model not in self.models:
            # A request that began before the list changed may need the model again: for its next hop, or the
            # next portion of a file.
            if not self._keeps_removed:
                self._drop_if_removed(entry)
        elif self._idle_seconds and not entry.model.is_pinned and entry.model.loaded is not None:
            loop = asyncio.get_running_loop()
            entry.idling = loop.call_later(self._idle_seconds, lambda: self._drop(entry, "idle"))

    def _make_space(self, needed: int, kept: Collection[_Entry] = ()) -> list[asyncio.Future[None]] | None:
        """Drop the least recently used models until so many bytes are free.

        Args:
            needed: The bytes.
            kept: Entries of models that are not dropped.

        Returns:
            What to wait for before the memory is used; None if too many models are in use.
        """
        if not self._max_bytes:
            return []
        resident = [entry for entry in self._entries.values() if entry.is_resident]
        excess = _total_bytes(resident) + needed - self._max_bytes
        victims = []
        for entry in sorted(resident, key=lambda entry: entry.used_at):
            if excess <= 0:
                break
            if not (entry.uses or entry.model.is_pinned or entry.loading or entry in kept):
                victims.append(entry)
                excess -= entry.model.memory_bytes
        if excess > 0 and needed:
            # A model that needs more than was estimated is loaded once it is alone with the pinned ones.
            others = [each for each in resident if not each.model.is_pinned and each not in victims]
            if others or len([each for each in kept if not each.model.is_pinned]) > 1:
                return None
        return [self._drop(entry, "memory") for entry in victims]

    async def _load(self, entry: _Entry, closing: Collection[asyncio.Future[None]]) -> None:
        name = entry.model.card.name
        try:
            if closing:
                await asyncio.wait(closing)
            async with self._load_slots:
                loaded = await in_background(partial(load_verified, self._backend, entry.model))
        except Exception as failure:
            entry.failures += 1
            pause = min(_FIRST_BACKOFF_SECONDS * 2 ** (entry.failures - 1), _LONGEST_BACKOFF_SECONDS)
            entry.retry_at = monotonic() + pause
            self._metrics.count_load("failed")
            reason = {"model": name, "retry_seconds": pause, **describe_failure(failure)}
            logger.error("the model could not be loaded", extra=reason)
            if isinstance(failure, ReplacedCheckpointError):
                self._list_again()
        else:
            self._set_loaded(entry, loaded)
        finally:
            entry.loading = None
            self._drop_when_idle(entry)
            self._serve_waiting()

    async def _load_all(self, due: Sequence[Model], models: Sequence[Model]) -> dict[Model, LoadedModel]:
        """Load the models that are due, all or none, and agree on the models of the new list."""
        loaded: dict[Model, LoadedModel] = {}
        try:
            for model in due:
                loaded[model] = await in_background(partial(load_verified, self._backend, model))
            await self._agree(models)
        except BaseException:  # whatever it is: close what was loaded, then raise it again
            for each in loaded.values():
                each.close()
            self._metrics.count_load("failed")
            raise
        return loaded

    def _set_loaded(self, entry: _Entry, loaded: LoadedModel) -> None:
        if self._is_closed:
            loaded.close()
            return
        model = entry.model
        model.loaded, model.memory_bytes, model.precision = loaded, loaded.memory_bytes, loaded.precision
        entry.failures, entry.used_at = 0, monotonic()
        self._metrics.count_load("loaded", loaded.seconds)
        self._metrics.show_models(self.models)
        fields = {"model": model.card.name, "version": model.version, "seconds": loaded.seconds}
        logger.info("model loaded", extra=fields)

    def _drop_if_removed(self, entry: _Entry) -> None:
        if not entry.uses and entry.loading is None:
            if entry.model.loaded is not None:
                self._drop(entry, "removed")
            # A request that waited for memory may have ended with a model that was removed before.
            self._entries.pop(entry.model, None)

    def _drop(self, entry: _Entry, reason: EvictionReason) -> asyncio.Future[None]:
        """Take a model without leases out of memory.

        Returns:
            Done when its memory is free.
        """
        model = entry.model
        loaded = [model.loaded] if model.loaded is not None else []
        model.loaded = None
        if entry.idling is not None:
            entry.idling.cancel()
        self._metrics.count_eviction(reason)
        self._metrics.show_models(self.models)
        logger.info("model dropped", extra={"model": model.card.name, "reason": reason})
        try:
            return in_background(partial(self._close, model, loaded))
        except RuntimeError:
            # Without a thread, the memory is free as soon as no worker refers to the engines.
            closed = asyncio.get_running_loop().create_future()
            closed.set_result(None)
            return closed

    def _close(self, model: Model, loaded: list[LoadedModel]) -> None:
        try:
            if not self._is_closed:
                self._wait_until_unused(model)
            while loaded:
                loaded.pop().close()
            release_memory()
        except Exception as fault:
            logger.error("a model could not be closed", extra={"model": model.card.name}, exc_info=fault)

    def _entry(self, model: Model) -> _Entry:
        entry = self._entries.get(model)
        if entry is None:
            entry = self._entries[model] = _Entry(model)
        return entry

    def _require_fitting(self, entries: Iterable[_Entry]) -> None:
        """Reject a request for several models that never fit into memory together with the pinned ones."""
        pinned = {each for each in self.models if each.is_pinned}
        wanted = {entry.model for entry in entries} - pinned
        needed = sum(model.memory_bytes for model in wanted | pinned)
        if len(wanted) > 1 and needed > self._max_bytes:
            raise TextTooLongError("q", "MAX_MODEL_BYTES", self._max_bytes, needed)

    def _require_memory(self, models: Iterable[Model], pinned: Collection[Model]) -> None:
        """Refuse a limit that the pinned models and any other one exceed.

        Raises:
            ConfigError: With the name of the largest model.
        """
        if not self._max_bytes:
            return
        others = [model for model in models if model not in pinned]
        largest = max(others or pinned, key=lambda model: model.memory_bytes)
        needed = sum(model.memory_bytes for model in {*pinned, largest})
        if needed > self._max_bytes:
            name = largest.card.name
            requirement = (
                f"at least {needed}, as {name} and the pinned models need, or 0; a request with texts in "
                "several languages needs all their models at a time"
            )
            raise ConfigError("max_model_bytes", requirement, self._max_bytes)


def _total_bytes(entries: Iterable[_Entry]) -> int:
    return sum(entry.model.memory_bytes for entry in entries)


class _Lease:
    """The context manager of `ModelRegistry.lease`; costs a fraction of what a generator would."""

    __slots__ = ("_deadline", "_entries", "_registry")

    def __init__(self, registry: ModelRegistry, entries: Sequence[_Entry], deadline: float) -> None:
        self._registry = registry
        self._entries = entries
        self._deadline = deadline

    async def __aenter__(self) -> None:
        await self._registry.begin_lease(self._entries, self._deadline)

    async def __aexit__(self, *_fault: object) -> None:
        self._registry.end_lease(self._entries)


def pinned_models(models: Sequence[Model], names: Sequence[str]) -> set[Model]:
    """Returns the models that names stand for: those of a model, or of a pair such as `en-fr`, or `all`.

    Raises:
        ConfigError: If a name stands for none.
    """
    if tuple(names) == ("all",):
        return set(models)
    catalogue = Catalogue(models)
    by_name = {model.card.name: {model} for model in models}
    return {model for name in names for model in by_name.get(name) or _models_of_pair(catalogue, name)}


def _models_of_pair(catalogue: Catalogue, name: str) -> set[Model]:
    for source in catalogue.sources:
        target = name.removeprefix(f"{source}-")
        if target != name and target in catalogue.targets(source):
            return {hop.model for hop in catalogue.route((source, target), None).hops}
    requirement = "names of checkpoints, or pairs such as `en-fr`, that are served; or auto, all or none"
    raise ConfigError("pinned_models", requirement, name)


def _identity(model: Model) -> tuple[object, ...]:
    """Returns a key that differs for models that differ, also in their self-test sentences."""
    return model.card.name, model.checksum, model.folder, model.self_test
