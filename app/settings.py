"""Every setting of the service, one group a concern; each is an environment variable DRAGOMAN_<NAME>."""

import re
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field, ValidationInfo, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from app.access.rates import parse_rate

ENV_PREFIX = "DRAGOMAN_"
# As browsers send it, whose names are ASCII and which leave the usual port out.
_ORIGIN = re.compile(
    r"(?P<scheme>https?)://(?P<host>[\w.-]+|\[[\da-f:.]+\])(?::(?P<port>\d{1,5}))?",
    re.ASCII | re.IGNORECASE,
)
_USUAL_PORTS = {"http": 80, "https": 443}


def _split(text: str) -> list[str]:
    """The parts of a comma-separated variable."""
    return [part.strip() for part in text.split(",") if part.strip()]


def _origin(text: str) -> str:
    """An origin as a browser spells it.

    Raises:
        ValueError: If it is none.
    """
    parts = _ORIGIN.fullmatch(text)
    if parts is None or int(parts["port"] or 0) > 65535:
        raise ValueError("must be origins such as `https://example.org`, or `*`")
    scheme, host, port = parts["scheme"].lower(), parts["host"].lower(), parts["port"]
    is_usual = port is None or int(port) == _USUAL_PORTS[scheme]
    return f"{scheme}://{host}" if is_usual else f"{scheme}://{host}:{int(port)}"


OrAuto = Annotated[int, BeforeValidator(lambda value: 0 if value == "auto" else value)]
"""A number; `auto` may be written for 0."""


class ModelSettings(BaseModel):
    """What is served, and on what."""

    checkpoint: Annotated[tuple[Path, ...], NoDecode] = Field(
        default=(Path("checkpoints"),),
        description="Checkpoint folder, or several separated by commas; "
        "a folder of checkpoint folders stands for all of them",
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        default="auto", description="Where to run: auto, cpu or cuda"
    )
    precision: Literal["auto", "float32", "bfloat16", "float16", "int8"] = Field(
        default="auto",
        description="Arithmetic of the network: auto, float32, bfloat16, float16 or int8; "
        "auto is int8 where the native engine runs on the CPU",
    )
    workers: OrAuto = Field(
        default=0,
        ge=0,
        le=256,
        description="Threads that decode, each a batch of its own; 0 or auto: one a core for the native "
        "engine on the CPU, otherwise 1",
    )

    shortlist: Literal["on", "off"] = Field(
        default="off",
        description="on: a sentence is translated with the tokens that its checkpoint's shortlist has "
        "for it, which is faster; off: with any",
    )

    pivot: Literal["on", "off"] = Field(
        default="on",
        description="on: a pair that no checkpoint translates goes through a language between, English if "
        "possible; off: it is refused",
    )

    retry_degenerate: Literal["on", "off"] = Field(
        default="on",
        description="on: a sentence whose translation looks broken is translated a second time, where the "
        "client left the search to us; off: it stays as it is",
    )

    watch_seconds: float = Field(
        default=5.0,
        ge=0,
        le=3600,
        description="How often the checkpoint folders are looked at; new or changed checkpoints are loaded "
        "once their files stay as they are for as long; 0: only at SIGHUP",
    )

    @field_validator("checkpoint", mode="before")
    @classmethod
    def _split_folders(cls, value: object) -> object:
        if isinstance(value, Path):
            return (value,)
        return _split(value) if isinstance(value, str) else value

    @field_validator("checkpoint")
    @classmethod
    def _at_least_one(cls, folders: tuple[Path, ...]) -> tuple[Path, ...]:
        if not folders:
            raise ValueError("must name a checkpoint folder")
        return folders


class ServerSettings(BaseModel):
    """The socket and the process."""

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on")
    port: int = Field(default=8000, ge=0, le=65535, description="Port to listen on; 0 picks a free one")
    trusted_proxies: str = Field(
        default="",
        description="Addresses or networks, separated by commas, whose X-Forwarded-For is believed, "
        "or `*`; none by default",
    )
    drain_seconds: float = Field(
        default=30.0, ge=0, le=3600, description="How long SIGTERM waits for requests in flight"
    )
    watchdog_seconds: float = Field(
        default=30.0,
        ge=0,
        le=3600,
        description="How long an engine that has work may make no step before /livez fails; 0: for ever",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severe events that are logged: debug, info, warning or error"
    )
    traces: Literal["on", "off"] = Field(
        default="off",
        description="on: a trace of every request goes where OpenTelemetry's own variables (`OTEL_…`) say; "
        "needs the extra `otel`",
    )

    @field_validator("trusted_proxies")
    @classmethod
    def _addresses(cls, proxies: str) -> str:
        try:
            for proxy in _split(proxies) if proxies != "*" else ():
                ip_network(proxy)
        except ValueError:
            raise ValueError("must be addresses or networks such as `10.0.0.0/8`, or `*`") from None
        return proxies

    @field_validator("log_level", mode="before")
    @classmethod
    def _lower_case(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value


class AccessSettings(BaseModel):
    """Who may use the service, and how often."""

    api_keys_file: Path | None = Field(
        default=None,
        description="File of `name:SHA-256 of the key in hex` lines; without it no key is needed",
    )
    rate_limit: str | None = Field(
        default=None, description="Requests of one client, e.g. `100/minute`; unlimited by default"
    )
    cors_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(), description="Web origins, separated by commas, that browsers may call from, or `*`"
    )

    @field_validator("api_keys_file")
    @classmethod
    def _readable(cls, path: Path | None) -> Path | None:
        if path is not None and not path.is_file():
            raise ValueError("must name an existing file")
        return path

    @field_validator("rate_limit")
    @classmethod
    def _understood(cls, rate: str | None) -> str | None:
        if not rate:
            return None
        if parse_rate(rate) is None:
            raise ValueError("must be a rate such as `100/minute`")
        return rate

    @field_validator("cors_origins", mode="before")
    @classmethod
    def _split_origins(cls, value: object) -> object:
        return _split(value) if isinstance(value, str) else value

    @field_validator("cors_origins")
    @classmethod
    def _schemes_and_hosts(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        return origins if origins == ("*",) else tuple(map(_origin, origins))


class LimitSettings(BaseModel):
    """How much one request, and all of them together, may ask for."""

    max_requests: int = Field(
        default=1024,
        ge=1,
        description="Most requests that are served at a time; one client gets at most four fifths of them",
    )
    max_held_bytes: int = Field(
        default=268_435_456,
        ge=1024,
        description="Most bytes of bodies being read and characters of texts being served; one client "
        "gets at most four fifths of them",
    )
    max_body_bytes: int = Field(default=1_048_576, ge=1024, description="Most bytes of a request body")
    max_items: int = Field(default=256, ge=1, description="Most texts in one request")
    max_chars: int = Field(default=10_000, ge=1, description="Most characters of one text")
    max_queued_tokens: int = Field(
        default=65_536,
        ge=1,
        description="Most source tokens that may wait (a beam counts for each hypothesis)",
    )
    max_batch_tokens: OrAuto = Field(
        default=0,
        ge=0,
        description="Most source tokens that one worker decodes together (a beam counts for each "
        "hypothesis); 0 or auto: what serves the engine best, 1024 natively, otherwise 4096",
    )
    max_encode_tokens: OrAuto = Field(
        default=0,
        ge=0,
        description="Most source tokens that join a running batch between two steps, so that a large "
        "arrival does not stall it; 0 or auto: 256 for the native engine, otherwise 2048",
    )
    fair_rows: OrAuto = Field(
        default=0,
        ge=0,
        description="Hypotheses that a client may always have decoded at a time; it gets more only while "
        "every other active client wants more too; 0 or auto: 64 on a GPU, on a CPU a sentence for each "
        "worker but one",
    )
    max_state_bytes: OrAuto = Field(
        default=0,
        ge=0,
        description="Most bytes of decoder state (keys and values of what is being decoded) of one worker, "
        "divided among its checkpoints; 0 or auto: 256 MiB a checkpoint on a CPU, 4 GiB on a GPU",
    )
    max_timeout_ms: int = Field(
        default=600_000,
        ge=1,
        le=3_600_000,
        description="Longest deadline that a request may name, milliseconds",
    )
    request_timeout_ms: int = Field(
        default=30_000, ge=1, le=3_600_000, description="Deadline of a request that names none, milliseconds"
    )

    @field_validator("max_body_bytes")
    @classmethod
    def _holdable(cls, size: int, others: ValidationInfo) -> int:
        if size > others.data.get("max_held_bytes", size):
            raise ValueError("must be at most DRAGOMAN_MAX_HELD_BYTES")
        return size

    @field_validator("request_timeout_ms")
    @classmethod
    def _within_maximum(cls, timeout_ms: int, others: ValidationInfo) -> int:
        if timeout_ms > others.data.get("max_timeout_ms", timeout_ms):
            raise ValueError("must be at most DRAGOMAN_MAX_TIMEOUT_MS")
        return timeout_ms


class Settings(ModelSettings, ServerSettings, AccessSettings, LimitSettings, BaseSettings):
    """All settings; a value comes from an option, else from the environment, else from `.env`."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, env_file=".env", env_file_encoding="utf-8", extra="ignore", frozen=True
    )


GROUPS: tuple[type[BaseModel], ...] = (ModelSettings, ServerSettings, AccessSettings, LimitSettings)


def variable(field: str) -> str:
    """Name of the environment variable that sets a field, or that is one of no field's."""
    return field if field.startswith(ENV_PREFIX) else ENV_PREFIX + field.upper()


def default_of(field: FieldInfo) -> str:
    """A field's default as its variable would spell it; empty where there is none."""
    if field.default is None:
        return ""
    return ",".join(map(str, field.default)) if isinstance(field.default, tuple) else str(field.default)
