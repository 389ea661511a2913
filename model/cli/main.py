"""`dragoman`: its commands, and how an error becomes one line and an exit status."""

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module, metadata
from typing import IO, Any

import click

from model.errors import ConfigError, MissingTorchError, TranslationError, UnsupportedLanguageError

# Other packages add commands, as the service does with `serve`.
ENTRY_POINTS = "dragoman.commands"

_COMMANDS: Mapping[str, str] = {
    "attention": "model.cli.inspect:attention",
    "average": "model.cli.editing:average",
    "evaluate": "model.cli.evaluate:evaluate",
    "export": "model.cli.conversion:export",
    "golden": "model.cli.editing:golden",
    "grow": "model.cli.editing:grow",
    "import": "model.cli.conversion:import_",
    "inspect": "model.cli.inspect:inspect",
    "report": "model.cli.train:report",
    "shortlist": "model.cli.editing:shortlist",
    "train": "model.cli.train:train",
    "translate": "model.cli.translate:translate",
    "tune": "model.cli.tune:tune",
}


class _Commands(click.Group):
    """Commands that are imported only when they are needed, and whose errors are one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names in alphabetical order."""
        return sorted({*_COMMANDS, *metadata.entry_points(group=ENTRY_POINTS).names})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports and returns the command of this name."""
        if cmd_name in _COMMANDS:
            module, _, attribute = _COMMANDS[cmd_name].partition(":")
            found = getattr(import_module(module), attribute)
        else:
            added = metadata.entry_points(group=ENTRY_POINTS, name=cmd_name)
            found = next((entry_point.load() for entry_point in added), None)
        if not isinstance(found, click.Command):
            return None
        if found.help:
            # click keeps the lines of a paragraph after the character \b, which raw docstrings spell out.
            found.help = found.help.replace("\\b\n", "\b\n")
            # The list of commands shows the whole first sentence; click would cut its own summary.
            found.short_help = found.short_help or _first_sentence(found.help)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the command to run, or suggests one with a similar name."""
        name = args[0]
        similar = difflib.get_close_matches(name, self.list_commands(ctx), n=1)
        if similar and self.get_command(ctx, name) is None:
            ctx.fail(f"No such command {name!r}. Did you mean {similar[0]!r}?")
        return super().resolve_command(ctx, args)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        """Parses the arguments before the command's name."""
        with _one_line_errors():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        """Parses the other arguments and runs the command."""
        with _one_line_errors():
            try:
                return super().invoke(ctx)
            except ModuleNotFoundError as missing:
                if missing.name != "torch":
                    raise
                raise MissingTorchError(f"`dragoman {ctx.invoked_subcommand}`") from missing


class Failure(click.ClickException):
    """The command failed: one line on standard error, status 1."""

    exit_code = 1

    def show(self, file: IO[Any] | None = None) -> None:
        """Prints the line."""
        click.echo(f"dragoman: {self.message}", file=file, err=True)


class Misuse(Failure):
    """The command was used wrongly: one line on standard error, status 2."""

    exit_code = 2


@contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except (Failure, click.exceptions.Exit, click.exceptions.NoArgsIsHelpError, BrokenPipeError):
        raise  # click ends the process for these, without a message if the reader of a pipe is gone
    except (KeyboardInterrupt, click.Abort) as interruption:
        raise Failure("interrupted") from interruption
    except Exception as error:
        if os.environ.get("DRAGOMAN_TRACEBACK"):
            raise
        is_misuse = isinstance(error, click.UsageError | ConfigError | UnsupportedLanguageError)
        raise (Misuse if is_misuse else Failure)(_one_line(error)) from error


@click.command(
    cls=_Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Set DRAGOMAN_TRACEBACK=1 to see where an unexpected error comes from.",
)
@click.version_option(package_name="dragoman", prog_name="dragoman", message="%(prog)s %(version)s")
def main() -> None:
    """Train, use, evaluate and serve translation models.

    Each command has its own help: dragoman COMMAND --help.
    """


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.split("\n\n", maxsplit=1)[0].split())
    return re.split(r"\.(?:\s|$)", paragraph, maxsplit=1)[0]


def _one_line(error: Exception) -> str:
    """Returns an error's message as one line."""
    if isinstance(error, click.UsageError) and error.ctx is not None:
        message = f"{error.format_message()} (see {error.ctx.command_path} --help)"
    elif isinstance(error, click.ClickException):
        message = error.format_message()
    elif isinstance(error, TranslationError):
        message = str(error)
    elif isinstance(error, OSError) and error.strerror:
        message = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    else:
        message = f"unexpected {type(error).__name__}: {error}"
    return " ".join(message.split())
