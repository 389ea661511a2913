"""Every setting of the service, in groups; each is an environment variable DRAGOMAN_<NAME>."""

import math
import os
import re
from collections.abc import Mapping
from difflib import get_close_matches
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationInfo, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from app.admission.rates import parse_rate
from model.text.formats.formats import MAX_UNPACKED_BYTES

ENV_PREFIX = "DRAGOMAN_"
# An origin as browsers send it: ASCII, and without the default port.
_ORIGIN = re.compile(
    r"(?P<scheme>https?)://(?P<host>[\w.-]+|\[[\da-f:.]+\])(?::(?P<port>\d{1,5}))?",
    re.ASCII | re.IGNORECASE,
)
_DEFAULT_PORTS = {"http": 80, "https": 443}


def _split(text: str) -> list[str]:
    """Returns the parts of a comma-separated variable."""
    return [part.strip() for part in text.split(",") if part.strip()]


def _names(value: object) -> object:
    return _split(value) if isinstance(value, str) else value


def _folders(value: object) -> object:
    folders = (value,) if isinstance(value, Path) else _names(value)
    if not folders:
        raise ValueError("must name a checkpoint folder")
    return folders


def _device(name: str) -> str:
    if re.fullmatch(r"auto|cpu|cuda(:\d+)?", name, re.ASCII) is None:
        raise ValueError("must be auto, cpu, cuda or cuda:N")
    return name


def _origins(names: tuple[str, ...]) -> tuple[str, ...]:
    return names if names == ("*",) else tuple(map(_origin, names))


def _origin(text: str) -> str:
    """Returns an origin as a browser spells it.

    Raises:
        ValueError: If the text is not an origin.
    """
    parts = _ORIGIN.fullmatch(text)
    if parts is None or int(parts["port"] or 0) > 65535:
        raise ValueError("must be origins such as `https://example.org`, or `*`")
    scheme, host, port = parts["scheme"].lower(), parts["host"].lower(), parts["port"]
    is_default = port is None or int(port) == _DEFAULT_PORTS[scheme]
    return f"{scheme}://{host}" if is_default else f"{scheme}://{host}:{int(port)}"


OrAuto = Annotated[int, BeforeValidator(lambda value: 0 if value == "auto" else value)]
"""A number; `auto` means 0."""

Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_names)]
"""Names between commas."""

Switch = Literal["on", "off"]


class ModelSettings(BaseModel):
    """The checkpoints, and the device that they run on."""

    checkpoint: Annotated[tuple[Path, ...], NoDecode, BeforeValidator(_folders)] = Field(
        default=(Path("checkpoints"),),
        description="Checkpoint folders to serve, separated by commas; a folder that contains checkpoint "
        "folders stands for all of them",
    )
    device: Annotated[str, AfterValidator(_device)] = Field(
        default="auto",
        description="Where the network runs: auto, cpu, cuda or cuda:N; auto is cuda if there is a GPU. "
        "cuda uses all GPUs that the process sees, each with the whole model; cuda:N only that one, from 0",
    )
    precision: Literal["auto", "float32", "bfloat16", "float16", "int8"] = Field(
        default="auto",
        description="Numbers the network computes in: auto, float32, bfloat16, float16 or int8; auto is "
        "int8 for the native library on a CPU",
    )
    workers: OrAuto = Field(
        default=0,
        ge=0,
        le=256,
        description="Decoding threads of a process, each with its own batch; 0 or auto: one for each core "
        "with the native library on a CPU, shared among the processes; one for each GPU; otherwise 1",
    )
    shortlist: Literal["auto", "on", "off"] = Field(
        default="auto",
        description="on: only the tokens on the checkpoint's shortlist for a sentence are considered, which "
        "is faster; off: all tokens are; auto: on in int8 for models that were imported with a shortlist",
    )
    pivot: Switch = Field(
        default="on",
        description="on: a pair that no checkpoint translates directly is translated through a third "
        "language, English if possible; off: the pair is refused",
    )
    retry_degenerate: Switch = Field(
        default="on",
        description="on: a sentence whose translation looks broken is translated a second time, unless the "
        "request chose a search; off: the first translation is returned",
    )
    pinned_models: Names = Field(
        default=("auto",),
        description="Checkpoints that are loaded at the start and kept: names or pairs such as `en-fr`, "
        "separated by commas, all, or none; the others are loaded by their first request. auto: all, or "
        "none if DRAGOMAN_MAX_MODEL_BYTES or DRAGOMAN_MODEL_IDLE_SECONDS is set",
    )
    max_model_bytes: int = Field(
        default=0,
        ge=0,
        description="Most bytes of loaded checkpoints; before another one is loaded, those that were used "
        "least recently are dropped; 0: no limit",
    )
    model_idle_seconds: float = Field(
        default=0.0,
        ge=0,
        le=1_000_000,
        description="Seconds after its last request when a checkpoint that is not pinned is dropped; 0 "
        "disables this",
    )
    watch_seconds: float = Field(
        default=5.0,
        ge=0,
        le=3600,
        description="Seconds between two looks at the checkpoint folders; a new or changed checkpoint is "
        "loaded once two more looks have found the same files; 0 disables watching, and only SIGHUP reloads",
    )

    @property
    def pinned(self) -> tuple[str, ...]:
        """Names of checkpoints or pairs that are pinned, `all` alone for every checkpoint; empty for none."""
        is_lazy = bool(self.max_model_bytes or self.model_idle_seconds)
        if self.pinned_models == ("auto",):
            return () if is_lazy else ("all",)
        return () if self.pinned_models == ("none",) else self.pinned_models


class ServerSettings(BaseModel):
    """The socket and the process."""

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on")
    port: int = Field(default=8000, ge=0, le=65535, description="Port to listen on; 0 chooses a free port")
    processes: OrAuto = Field(
        default=1,
        ge=0,
        le=256,
        description="Processes that serve on the port, under one supervisor; 0 or auto: one for each four "
        "cores on a CPU, otherwise 1",
    )
    trusted_proxies: str = Field(
        default="",
        description="Addresses or networks, separated by commas, whose X-Forwarded-For header is trusted, "
        "or `*`; none by default",
    )
    drain_seconds: float = Field(
        default=30.0, ge=0, le=3600, description="Seconds that a shutdown waits for requests in flight"
    )
    watchdog_seconds: float = Field(
        default=30.0,
        ge=0,
        le=3600,
        description="Seconds without a decoding step, while there is work, after which /livez fails; 0 "
        "disables the check",
    )
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        BeforeValidator(lambda value: value.lower() if isinstance(value, str) else value),
    ] = Field(default="info", description="Lowest level that is logged: debug, info, warning or error")
    traces: Switch = Field(
        default="off",
        description="on: requests are traced with OpenTelemetry, configured by its own variables "
        "(`OTEL_…`); needs the extra `otel`",
    )
    ray_address: str = Field(
        default="",
        description="Address of a Ray cluster, or `auto` on one of its machines: this process then loads no "
        "model, and the replicas there answer its requests; needs the extra `ray`",
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


class AccessSettings(BaseModel):
    """The clients that may use the service, and how often."""

    api_keys_file: Path | None = Field(
        default=None,
        description="File with a line `name:SHA-256 of the key in hex` for each key; without it no key is "
        "needed",
    )
    rate_limit: str | None = Field(
        default=None,
        description="Requests that one client may send in a sliding window of seconds, minutes, hours or "
        "days: `100/minute`, `5 per 10 seconds`; unlimited by default",
    )
    suggestions_file: Path | None = Field(
        default=None,
        description="File to which `POST /suggest` adds a JSON line for each suggestion; without it "
        "suggestions are refused",
    )
    glossary_folder: Path | None = Field(
        default=None,
        description="Folder of the glossaries that DeepL's paths store, which is made when the first one "
        "comes; without it they are refused",
    )
    cors_origins: Annotated[Names, AfterValidator(_origins)] = Field(
        default=(), description="Origins of web pages that may call the service, separated by commas, or `*`"
    )

    @field_validator("api_keys_file")
    @classmethod
    def _readable(cls, path: Path | None) -> Path | None:
        if path is not None and not path.is_file():
            raise ValueError("must name an existing file")
        return path

    @field_validator("suggestions_file", "glossary_folder", mode="before")
    @classmethod
    def _none_if_empty(cls, path: object) -> object:
        return path or None

    @field_validator("suggestions_file")
    @classmethod
    def _file(cls, path: Path | None) -> Path | None:
        if path is None:
            return None
        if path.is_dir() or not path.parent.is_dir():
            raise ValueError("must name a file in an existing folder")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise ValueError("must name a file that can be written")
        return path

    @field_validator("glossary_folder")
    @classmethod
    def _folder(cls, path: Path | None) -> Path | None:
        if path is None or path.is_dir():
            return path
        above = next(each for each in path.absolute().parents if each.exists())
        if path.exists() or not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
            raise ValueError("must name a folder, or one that can be made")
        return path

    @field_validator("rate_limit")
    @classmethod
    def _understood(cls, rate: str | None) -> str | None:
        if not rate:
            return None
        if parse_rate(rate) is None:
            raise ValueError("must be a rate such as `100/minute`")
        return rate


class LimitSettings(BaseModel):
    """Limits of one request, and of all requests together."""

    max_requests: int = Field(
        default=1024,
        ge=1,
        description="Most requests in progress; one client can have at most four fifths of them",
    )
    max_held_bytes: int = Field(
        default=268_435_456,
        ge=1024,
        description="Most bytes of the bodies of requests in progress; one client can have at most four "
        "fifths of them",
    )
    max_body_bytes: int = Field(default=1_048_576, ge=1024, description="Most bytes of a request body")
    max_file_bytes: int = Field(
        default=10_485_760,
        ge=1024,
        description="Most bytes of a request with a file; never more than DRAGOMAN_MAX_HELD_BYTES",
    )
    max_unpacked_bytes: int = Field(
        default=MAX_UNPACKED_BYTES,
        ge=1024,
        description="Most bytes of the parts of a docx, pptx, odt, odp or epub file, unpacked",
    )
    file_seconds: float = Field(
        default=1800.0, ge=1, le=86_400, description="Seconds after which a translated file is deleted"
    )
    max_items: int = Field(default=256, ge=1, description="Most texts in one request")
    max_chars: int = Field(default=10_000, ge=1, description="Most characters of one text")
    max_queued_tokens: int = Field(
        default=65_536,
        ge=1,
        description="Most source tokens in the queue, multiplied by the beam size of their request",
    )
    max_batch_tokens: OrAuto = Field(
        default=0,
        ge=0,
        description="Most source tokens that one worker decodes together, multiplied by the beam size; 0 or "
        "auto: 1024 with the native library, otherwise 4096",
    )
    max_encode_tokens: OrAuto = Field(
        default=0,
        ge=0,
        description="Most source tokens that join a running batch between two steps, which bounds how long "
        "an arrival delays the others; 0 or auto: 256 with the native library, otherwise 2048",
    )
    fair_rows: OrAuto = Field(
        default=0,
        ge=0,
        description="Hypotheses of one client that may always be decoded together; a client gets more only "
        "while every other active client asks for more as well; 0 or auto: 64 on a GPU, on a CPU one "
        "sentence fewer than there are workers, at least one",
    )
    max_state_bytes: OrAuto = Field(
        default=0,
        ge=0,
        description="Most bytes of decoder state (keys and values) of one worker, divided among its "
        "checkpoints; 0 or auto: 256 MiB for each checkpoint on a CPU, on a GPU what full batches need, at "
        "most two fifths of its free memory for all checkpoints together",
    )
    max_timeout_ms: int = Field(
        default=600_000,
        ge=1,
        le=3_600_000,
        description="Longest deadline that a request may ask for, milliseconds",
    )
    request_timeout_ms: int = Field(
        default=30_000,
        ge=1,
        le=3_600_000,
        description="Deadline of a request without `timeout_ms`, milliseconds",
    )

    @field_validator("max_body_bytes")
    @classmethod
    def _holdable(cls, size: int, others: ValidationInfo) -> int:
        if size > others.data.get("max_held_bytes", size):
            raise ValueError("must be at most DRAGOMAN_MAX_HELD_BYTES")
        return size

    @field_validator("max_file_bytes")
    @classmethod
    def _held(cls, size: int, others: ValidationInfo) -> int:
        return min(size, int(others.data.get("max_held_bytes", size)))

    @field_validator("request_timeout_ms")
    @classmethod
    def _within_maximum(cls, timeout_ms: int, others: ValidationInfo) -> int:
        if timeout_ms > others.data.get("max_timeout_ms", timeout_ms):
            raise ValueError("must be at most DRAGOMAN_MAX_TIMEOUT_MS")
        return timeout_ms


class Settings(ModelSettings, ServerSettings, AccessSettings, LimitSettings, BaseSettings):
    """All settings; a value comes from an option, else from the environment, else from `.env`."""

    def for_one_of(self, count: int) -> "Settings":
        """Returns the settings of each of so many processes: the sum of their limits is the limit set."""
        return self.model_copy(
            update={
                "processes": count,
                "max_requests": math.ceil(self.max_requests / count),
                "max_held_bytes": max(self.max_held_bytes // count, self.max_body_bytes, self.max_file_bytes),
                "max_model_bytes": math.ceil(self.max_model_bytes / count),
            }
        )

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, env_file=".env", env_file_encoding="utf-8", extra="ignore", frozen=True
    )


GROUPS: tuple[type[BaseModel], ...] = (ModelSettings, ServerSettings, AccessSettings, LimitSettings)


def variable(field: str) -> str:
    """Returns the name of the environment variable of a field; a name of a variable is returned as it is."""
    return field if field.startswith(ENV_PREFIX) else ENV_PREFIX + field.upper()


# Variables that the native library, the command line, docker-compose.yml and the tests read.
_OTHER_VARIABLES = tuple(
    ENV_PREFIX + name for name in ("NATIVE", "TRACEBACK", "MEMORY", "TEST_SENTENCES", "WRITE_GOLDEN")
)
# Other separators, as in DRAGOMAN-PORT, are mistakes that would leave a setting out.
_LIKE_ENV_PREFIX = r"DRAGOMAN[_.-]"
# Kubernetes describes services whose name begins with `dragoman` to every pod beside them.
_SERVICE_LINK = re.compile(
    ENV_PREFIX + r"(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_SERVICE_ADDRESS = re.compile(r"(tcp|udp|sctp)://.+")


def unknown_variable(variables: Mapping[str, str | None]) -> tuple[str, str] | None:
    """Returns the first variable DRAGOMAN_* or DRAGOMAN-* that does not exist, and the nearest name of one.

    Args:
        variables: Names and values of the environment or of a file; the case of names is ignored.

    Returns:
        None if all exist, or describe services of a cluster.
    """
    known = [*map(variable, Settings.model_fields), *_OTHER_VARIABLES]
    for given, value in variables.items():
        name = given.upper()
        if not re.match(_LIKE_ENV_PREFIX, name) or name in known or _SERVICE_LINK.fullmatch(name):
            continue
        if not (name.endswith("_PORT") and _SERVICE_ADDRESS.fullmatch(value or "")):
            return given, get_close_matches(name, known, n=1, cutoff=0)[0]
    return None


def default_of(field: FieldInfo) -> str:
    """Returns a field's default as its variable spells it; empty if there is none."""
    if field.default is None:
        return ""
    return ",".join(map(str, field.default)) if isinstance(field.default, tuple) else str(field.default)
