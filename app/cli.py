"""`dragoman serve`, where every setting is an option and an environment variable, and `dragoman key`."""

import os
import re
import sys
from collections.abc import Iterator
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from dotenv.parser import parse_stream
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from app.admission.keys import KEY, append_line, line_of, new_key
from app.settings import GROUPS, Settings, default_of, unknown_variable, variable
from model.checkpoint.manifest import served_folders
from model.decoding.device import available_cores, may_have_gpu
from model.errors import ConfigError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from app.connection.listening import Listener
    from app.lifecycle.processes import ServiceProcess


# An event loop serves about as much as four cores decode.
_CORES_PER_PROCESS: Final = 4


def _options() -> Iterator[click.Option]:
    for group in GROUPS:
        for name, field in group.model_fields.items():
            yield click.Option(
                ["--" + name.replace("_", "-"), name], metavar="VALUE", help=_help(name, field)
            )


def _help(name: str, field: FieldInfo) -> str:
    default = default_of(field)
    ending = f"; default: {default}" if default else ""
    return f"{field.description}  [{variable(name)}{ending}]"


def _serve(**options: str | None) -> None:
    """Serve translations over HTTP until a signal ends the process.

    Each option is also an environment variable, whose name follows it, and can stand in a file `.env`.
    """
    settings = _read_settings({name: value for name, value in options.items() if value is not None})
    try:
        if not settings.ray_address:
            served_folders(settings.checkpoint)
        _run(settings)
    except ConfigError as error:
        message = f"{variable(error.field)} must be {error.requirement}, but is {error.value!r} instead"
        raise click.UsageError(message) from None


def _run(settings: Settings) -> None:
    # Imported here, so that --help and a bad setting answer at once, and the supervisor stays small.
    count = _num_processes(settings)
    if count == 1:
        from app.telemetry.logs import set_up_logs

        set_up_logs(settings.log_level)
        _serve_in_this_process(settings)
    else:
        from app.connection.supervisor import supervise

        sys.exit(supervise(settings, count, _serve_in_this_process))


def _num_processes(settings: Settings) -> int:
    """Returns the number of processes; `auto` is one with a GPU, and for a front of Ray replicas.

    Raises:
        ConfigError: If there are to be several fronts.
    """
    if settings.ray_address and settings.processes > 1:
        raise ConfigError("processes", "1 or auto where DRAGOMAN_RAY_ADDRESS is set", settings.processes)
    has_gpu = settings.device.startswith("cuda") or (settings.device == "auto" and may_have_gpu())
    if settings.processes or has_gpu or settings.ray_address:
        return settings.processes or 1
    return max(1, available_cores() // _CORES_PER_PROCESS)


def _serve_in_this_process(
    settings: Settings, process: "ServiceProcess | None" = None, listener: "Listener | None" = None
) -> None:
    """Serve in this process, which may be one of several under a supervisor."""
    from app.connection.server import serve as run
    from app.main import create_app

    app = _front(settings) if settings.ray_address else create_app(settings, process=process)
    run(app, settings, listener)


def _front(settings: Settings) -> "FastAPI":
    try:
        from app.cluster.front import create_front
        from app.cluster.ray_replicas import RayCluster
    except ModuleNotFoundError:
        requirement = "empty, unless the extra `ray` is installed"
        raise ConfigError("ray_address", requirement, settings.ray_address) from None
    return create_front(settings, partial(RayCluster, settings.ray_address))


def _variables_of_file() -> dict[str, str | None]:
    """Returns what `.env` sets; a line that cannot be read is refused, as its setting would be left out."""
    file = Path(".env")
    found = list(parse_stream(StringIO(file.read_text("utf-8") if file.is_file() else "")))
    for each in found:
        if each.error:
            # Blank lines before it are part of it.
            line = each.original.line + each.original.string.rstrip("\n").count("\n")
            raise click.UsageError(f"line {line} of .env must be NAME=VALUE")
    return {each.key: each.value for each in found if each.key}


def _read_settings(options: dict[str, str]) -> Settings:
    try:
        for source, variables in (("", os.environ), (" in .env", _variables_of_file())):
            if unknown := unknown_variable(variables):
                name, nearest = unknown
                raise click.UsageError(f"{name}{source} is not a setting; the nearest is {nearest}")
        return Settings(**options)  # type: ignore[arg-type]
    except UnicodeDecodeError:
        raise click.UsageError("the file .env must be UTF-8") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        # "Value error, must be …", "Input should be …, unable to parse …" and "String should have …".
        requirement = re.sub(r"^.*?(must|should) ", "", first["msg"]).partition(", unable")[0]
        value = KEY.sub("dragoman_…", repr(first["input"]))
        message = f"{variable(str(first['loc'][0]))} must {requirement}, but is {value} instead"
        raise click.UsageError(message) from None


serve = click.Command("serve", callback=_serve, params=list(_options()), help=_serve.__doc__)


def _key(name: str, file: Path | None) -> None:
    """Make an API key for NAME and show it, this once.

    The line for the file of keys (DRAGOMAN_API_KEYS_FILE) follows, unless --file appends it there. A
    running service reads the change with its next request. NAME may have several keys while one replaces
    another. To revoke a key, delete its line.
    """
    value = new_key()
    line = line_of(name, value)
    try:
        if file is not None:
            append_line(file, line)
    except UnicodeDecodeError:
        raise click.UsageError(f"{file} cannot be written: it is not text") from None
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {error.strerror}") from None
    click.echo(f"key:  {value}")
    if file is None:
        click.echo(f"line: {line}")


key = click.Command(
    "key",
    callback=_key,
    params=[
        click.Argument(["name"]),
        click.Option(
            ["--file"], type=click.Path(path_type=Path, dir_okay=False), help="Append its line to this file"
        ),
    ],
    help=_key.__doc__,
)
