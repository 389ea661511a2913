"""`dragoman`: the commands, and the one place where an error becomes a line and an exit status."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module, metadata
from typing import IO, Any

import click

from model.errors import ConfigError, TranslationError, UnsupportedLanguageError

# Other packages add commands of their own, as the service does with `serve`.
ENTRY_POINTS = "dragoman.commands"

_COMMANDS: Mapping[str, str] = {
    "attention": "model.cli.attention:attention",
    "average": "model.cli.average:average",
    "evaluate": "model.cli.evaluate:evaluate",
    "export": "model.cli.export:export",
    "golden": "model.cli.self_test:golden",
    "grow": "model.cli.deepen:grow",
    "inspect": "model.cli.inspect:inspect",
    "report": "model.cli.report:report",
    "shortlist": "model.cli.shortlist:shortlist",
    "train": "model.cli.train:train",
    "translate": "model.cli.translate:translate",
    "tune": "model.cli.tune:tune",
}


class _Commands(click.Group):
    """Commands that are imported when they are asked for, and errors of one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names, in order of the alphabet."""
        return sorted({*_COMMANDS, *metadata.entry_points(group=ENTRY_POINTS).names})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, imported now."""
        if cmd_name in _COMMANDS:
            module, _, attribute = _COMMANDS[cmd_name].partition(":")
            found = getattr(import_module(module), attribute)
        else:
            added = metadata.entry_points(group=ENTRY_POINTS, name=cmd_name)
            found = next((entry_point.load() for entry_point in added), None)
        if not isinstance(found, click.Command):
            return None
        if found.help:
            # click's mark of a paragraph that keeps its lines, as a raw docstring spells it.
            found.help = found.help.replace("\\b\n", "\b\n")
        return found

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        """Read what stands before the command's name."""
        with _one_line_errors():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        """Read the rest and run the command."""
        with _one_line_errors():
            return super().invoke(ctx)


class Failure(click.ClickException):
    """The command could not do what was asked: one line on standard error, status 1."""

    exit_code = 1

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the line."""
        click.echo(f"dragoman: {self.message}", file=file, err=True)


class Misuse(Failure):
    """The command was asked for what it cannot understand: status 2."""

    exit_code = 2


@contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except (Failure, click.exceptions.Exit, click.exceptions.NoArgsIsHelpError, BrokenPipeError):
        raise  # click ends the process for these, quietly where the reader of a pipe is gone
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
    """Train, use, judge and serve translation models.

    Each command explains itself: dragoman COMMAND --help.
    """


def _one_line(error: Exception) -> str:
    """What happened, in one line that a person can act on."""
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
