"""The command line, a file a command; each loads what it needs only when it runs."""

from model.cli.main import main

__all__ = ["main"]
