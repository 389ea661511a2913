"""How far a command is, on standard error."""

import sys

from tqdm import tqdm


def progress_bar(
    unit: str, *, total: int | None = None, done: int = 0, wanted: bool | None = None
) -> "tqdm[None]":
    """A bar, or what stands for one and shows nothing.

    Args:
        unit: What is counted, in the plural.
        total: How many there are, if that is known.
        done: So many are done already.
        wanted: Whether to show it; None does where standard error is a terminal.
    """
    # There is none where whoever started the process has closed it.
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    shown = is_terminal if wanted is None else wanted and sys.stderr is not None
    return tqdm(unit=f" {unit}", total=total, initial=done, disable=not shown, file=sys.stderr)
