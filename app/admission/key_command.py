"""`dragoman key`: an API key, shown once; the file of keys holds only its digest."""

import os
from pathlib import Path

import click

from app.admission.keys import line_of, new_key


def _key(name: str, file: Path | None) -> None:
    """Make an API key for NAME and show it, this once.

    The line for the file of keys (DRAGOMAN_API_KEYS_FILE) follows, unless --file appends it there. A
    running service reads the change with its next request. NAME may have several keys while one replaces
    another. To revoke a key, delete its line.
    """
    key = new_key()
    line = line_of(name, key)
    if file is not None:
        _append(file, line)
    click.echo(f"key:  {key}")
    if file is None:
        click.echo(f"line: {line}")


def _append(file: Path, line: str) -> None:
    try:
        if not file.exists():
            # The file holds digests only, but the names of the owners are not public either.
            file.touch(mode=0o600)
        text, size = file.read_text("utf-8"), file.stat().st_size
        try:
            with file.open("a", encoding="utf-8") as stream:
                stream.write(f"{'' if text.endswith(chr(10)) or not text else chr(10)}{line}\n")
        except OSError:
            os.truncate(file, size)  # a part of a line would make the file malformed
            raise
    except UnicodeDecodeError:
        raise click.UsageError(f"{file} cannot be written: it is not text") from None
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {error.strerror}") from None


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
