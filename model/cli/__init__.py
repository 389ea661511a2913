"""The command line; a command imports what it needs when it runs.

    main          the list of commands, and how an error becomes one line
    options       what several commands take
    output_files  files that are written as a whole, or continued
    translate     translate, also long files and folders
    evaluate      evaluate; tune has tune
    train         train, report
    inspect       inspect, attention
    editing       average, grow, golden, shortlist
    conversion    import, export

`dragoman serve` and `dragoman key` are in `app`, which adds them by entry points.
"""

import sys

try:
    from model.cli.main import main
except KeyboardInterrupt:  # `main` reports those that come later
    sys.exit("dragoman: interrupted")

__all__ = ["main"]
