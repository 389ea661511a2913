"""What the requests of one application share, put together from its settings."""

import gc
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from app.admission.gate import Gate, HeaderAdmission
from app.admission.keys import KeyRing
from app.admission.rates import RateLimit
from app.admission.usage import Usage
from app.errors import NotReadyError
from app.lifecycle.phase import Lifecycle
from app.lifecycle.processes import ServiceProcess
from app.lifecycle.watchdog import Watchdog
from app.settings import Settings
from app.telemetry.metrics import Metrics
from app.telemetry.shared_metrics import SharedMetrics
from app.translation.files import FileJobs, FileStore
from app.translation.glossary_store import GlossaryStore
from app.translation.service import TranslationService
from model.errors import ConfigError

if TYPE_CHECKING:
    from app.telemetry.tracing import Tracing

_YOUNG_OBJECTS: Final = 10_000


@dataclass
class Context:
    """What the requests of one application share. Only the HTTP layer takes all of it.

    Attributes:
        settings: All settings.
        keys: API keys.
        rates: The rate limit of each client.
        gate: The limits of requests and of their bytes in flight.
        lifecycle: The phase of the process, and its requests in flight.
        metrics: All metrics.
        watchdog: Whether the engines make progress.
        usage: Characters translated, by client.
        tracing: Where traces go; None if traces are off.
        files: Translated files.
        file_jobs: Files that are translated in the background.
        glossaries: Stored glossaries.
        process: This process among several of one service; None if it is the only one.
    """

    settings: Settings
    keys: KeyRing
    rates: RateLimit
    gate: Gate
    lifecycle: Lifecycle = field(default_factory=Lifecycle)
    metrics: Metrics = field(default_factory=Metrics)
    watchdog: Watchdog = field(init=False)
    usage: Usage = field(init=False)
    tracing: "Tracing | None" = None
    files: FileStore = field(init=False)
    file_jobs: FileJobs = field(init=False)
    glossaries: GlossaryStore = field(init=False)
    process: ServiceProcess | None = None
    _service: TranslationService | None = None

    def __post_init__(self) -> None:
        self.watchdog = Watchdog(self.settings.watchdog_seconds, self.metrics)
        self.glossaries = GlossaryStore(self.settings.glossary_folder)
        process, limits = self.process, (self.settings.max_held_bytes, self.settings.file_seconds)
        if process is None:
            self.usage = Usage()
            self.files = FileStore(*limits)
            self.file_jobs = FileJobs(self.files, *limits)
        else:
            self.usage = Usage(process.folder / "usage", process.index)
            self.files = FileStore(*limits, process.folder / "files" / str(process.index))
            self.file_jobs = FileJobs(self.files, *limits, process.folder / "jobs")
        self.metrics.watch("requests_by_key", lambda: self.keys.uses)

    @classmethod
    def of(cls, settings: Settings, process: ServiceProcess | None = None) -> "Context":
        """The context for these settings; it is not ready before `serve`.

        Args:
            settings: All settings.
            process: This process among several of one service; None if it is the only one.

        Raises:
            ConfigError: If the API key file cannot be used, or traces are on and `otel` is not installed.
        """
        return cls(
            settings,
            KeyRing(settings.api_keys_file),
            RateLimit(settings.rate_limit),
            Gate(settings.max_requests, settings.max_held_bytes),
            metrics=Metrics() if process is None else Metrics(_shared_metrics(process)),
            tracing=_tracing() if settings.traces == "on" else None,
            process=process,
        )

    def header_admission(self) -> HeaderAdmission:
        """Admission of requests at their heads, for the connections of one server."""
        return HeaderAdmission(
            self.gate,
            keys=self.keys,
            metrics=self.metrics,
            max_body_bytes=self.settings.max_body_bytes,
            is_behind_proxies=bool(self.settings.trusted_proxies),
        )

    def serve(self, service: TranslationService) -> None:
        """Become ready; this service answers requests from now on."""
        self._service = service
        # The collector need not look at what lives as long as the models: modules, schemas, vocabularies.
        gc.freeze()
        # Requests in progress hold some ten thousand objects, which would be looked at again and again.
        gc.set_threshold(_YOUNG_OBJECTS)
        self.lifecycle.become_ready()

    @property
    def service(self) -> TranslationService:
        """The service of the active models.

        Raises:
            NotReadyError: While they load.
        """
        if self._service is None:
            raise NotReadyError
        return self._service


def _shared_metrics(process: ServiceProcess) -> SharedMetrics:
    return SharedMetrics(process.folder / "metrics", process.index, process.pids)


def _tracing() -> "Tracing":
    # OpenTelemetry takes a while to load, and most services run without traces.
    try:
        from app.telemetry.tracing import Tracing
    except ModuleNotFoundError:
        raise ConfigError("traces", "off, unless the extra `otel` is installed", "on") from None
    return Tracing.from_environment()
