"""What one application shares between its requests."""

from dataclasses import dataclass, field

from app.admission import Admission
from app.errors import NotReadyError
from app.keys import KeyRing
from app.lifecycle import Lifecycle
from app.rates import RateLimit
from app.service import TranslationService
from app.settings import Settings
from app.telemetry import Metrics
from app.usage import Usage


@dataclass
class Context:
    """What one application shares between its requests.

    Attributes:
        settings: All settings.
        lifecycle: Whether it is ready, and what is in flight.
        metrics: Its own registry.
        keys: Who may ask.
        rates: How often.
        admission: How many at a time.
        usage: How much each has had translated.
    """

    settings: Settings
    keys: KeyRing
    rates: RateLimit
    admission: Admission
    lifecycle: Lifecycle = field(default_factory=Lifecycle)
    metrics: Metrics = field(default_factory=Metrics)
    usage: Usage = field(default_factory=Usage)
    _service: TranslationService | None = None

    @classmethod
    def of(cls, settings: Settings) -> "Context":
        """The context that some settings ask for; it is not ready before `serve`.

        Raises:
            ConfigError: If the file of API keys cannot be used.
        """
        return cls(
            settings,
            KeyRing(settings.api_keys_file),
            RateLimit(settings.rate_limit),
            Admission(settings.max_requests),
        )

    def serve(self, service: TranslationService) -> None:
        """Become ready, with this service."""
        self._service = service
        self.lifecycle.become_ready()

    @property
    def service(self) -> TranslationService:
        """What translates.

        Raises:
            NotReadyError: While it loads.
        """
        if self._service is None:
            raise NotReadyError
        return self._service
