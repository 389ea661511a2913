"""The command line, one module for each command; a command imports what it needs when it runs."""

from model.cli.main import main

__all__ = ["main"]
