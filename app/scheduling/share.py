"""④ How much of a shared room one client may take, so that there is always some left for another.

A client that has something in the room already may fill it until it has SHARE times as much as is still
free: dynamic thresholds, Choudhury and Hahne 1998 (https://doi.org/10.1109/90.731195). A lone client so
gets SHARE / (1 + SHARE) of the room; n greedy ones get SHARE / (1 + n · SHARE) each, and leave a part
free too. Whoever has nothing in it gets whatever is free.
"""

from typing import Final

SHARE: Final = 4


def fits(need: int, *, mine: int, free: int) -> bool:
    """Whether a client may take so much more.

    Args:
        need: How much it asks for.
        mine: How much it has.
        free: How much nobody has.
    """
    return need <= free and (mine == 0 or mine + need <= SHARE * (free - need))


def excess(need: int, *, mine: int, free: int) -> int:
    """How much of what the client has, or of all if it has nothing, must go before it may take so much."""
    missing = max(need - free, 0)
    if mine == 0:
        return missing
    return max(missing, -((SHARE * (free - need) - mine - need) // (1 + SHARE)))
