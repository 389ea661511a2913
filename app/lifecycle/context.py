"""What the requests of one application share, put together from its settings."""

from typing import TYPE_CHECKING

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
from app.translation.file_jobs import FileJobs, FileStore
from app.translation.glossary_store import GlossaryStore
from app.translation.service import TranslationService
from model.errors import ConfigError

if TYPE_CHECKING:
    from app.telemetry.tracing import Tracing


class Context:
    """What the requests of one application share. Only the HTTP layer and the active models take all of it.

    It is not ready before `serve`.

    Args:
        settings: All settings.
        process: This process among several of one service; None if it is the only one.

    Attributes:
        settings: All settings.
        process: This process among several of one service; None if it is the only one.
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

    Raises:
        ConfigError: If the API key file cannot be used, or traces are on and `otel` is not installed.
    """

    def __init__(self, settings: Settings, process: ServiceProcess | None = None) -> None:
        self.settings = settings
        self.process = process
        self.keys = KeyRing(settings.api_keys_file)
        self.rates = RateLimit(settings.rate_limit)
        self.gate = Gate(settings.max_requests, settings.max_held_bytes)
        self.lifecycle = Lifecycle()
        self.tracing = _tracing() if settings.traces == "on" else None
        self.glossaries = GlossaryStore(settings.glossary_folder)
        limits = settings.max_held_bytes, settings.file_seconds
        if process is None:
            self.metrics = Metrics()
            self.usage = Usage()
            self.files = FileStore(*limits)
        else:
            shared = process.folder
            self.metrics = Metrics(SharedMetrics(shared / "metrics", process.index, process.pids))
            self.usage = Usage(shared / "usage", process.index)
            self.files = FileStore(*limits, shared / "files", process.index)
        self.file_jobs = FileJobs(self.files, *limits, hold_models=self.lifecycle.hold_models)
        self.watchdog = Watchdog(settings.watchdog_seconds, self.metrics)
        self.metrics.watch("requests_by_key", lambda: self.keys.uses)
        self._service: TranslationService | None = None

    def header_admission(self) -> HeaderAdmission:
        """Admission of requests at their heads, for the connections of one server."""
        return HeaderAdmission(
            self.gate,
            keys=self.keys,
            metrics=self.metrics,
            max_body_bytes=self.settings.max_body_bytes,
            max_file_bytes=self.settings.max_file_bytes,
            is_behind_proxies=bool(self.settings.trusted_proxies),
        )

    def serve(self, service: TranslationService) -> None:
        """Become ready; this service answers requests from now on."""
        self._service = service
        self.lifecycle.become_ready()

    def request_reload(self) -> None:
        """Have the checkpoints loaded again, by all processes that serve together."""
        if self.process is None:
            self.lifecycle.reload_requested.set()
        else:
            self.process.request_reload()

    @property
    def service(self) -> TranslationService:
        """The service of the active models.

        Raises:
            NotReadyError: While they load.
        """
        if self._service is None:
            raise NotReadyError
        return self._service


def _tracing() -> "Tracing":
    # OpenTelemetry takes a while to load, and most services run without traces.
    try:
        from app.telemetry.tracing import Tracing
    except ModuleNotFoundError:
        raise ConfigError("traces", "off, unless the extra `otel` is installed", "on") from None
    return Tracing.from_environment()
