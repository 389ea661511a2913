"""The command line, one module for each command; a command imports what it needs when it runs.

`main` lists the commands, and `options` declares what several of them take. `dragoman serve` and
`dragoman key` are in `app`, which adds them by entry points.
"""

import sys

try:
    from model.cli.main import main
except KeyboardInterrupt:  # `main` reports those that come later
    sys.exit("dragoman: interrupted")

__all__ = ["main"]
