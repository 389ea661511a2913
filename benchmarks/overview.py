"""A race at a glance: how many times as fast as each other engine ours is, a row a race."""

from collections.abc import Sequence

from benchmarks.race import Place
from benchmarks.report import Table
from benchmarks.rounds import Clock, speed_ratio

_FASTEST_FIRST = ("int8", "bfloat16", "float32")


def overview(places: Sequence[Place], clock: Clock) -> Table:
    """How our fastest precision compares with everybody, ready for a document.

    Args:
        places: Of any number of races with the same contestants.
        clock: What ratios are computed from.
    """
    names = list(dict.fromkeys(place.contestant.name for place in places))
    champion = _champion(places)
    races: dict[tuple[str, ...], dict[str, Place]] = {}
    for place in places:
        race = place.race
        key = race.network, race.search, str(race.threads), str(race.batch_size)
        races.setdefault(key, {})[place.contestant.name] = place
    others = [name for name in names if name != champion]
    return Table(
        title=f"How many times as fast {champion} is, median (lowest–highest) of the rounds",
        columns=("network", "search", "threads", "batch", *others),
        rows=[
            (*key, *(_cell(found[champion], found.get(name), clock) for name in others))
            for key, found in races.items()
        ],
    )


def _champion(places: Sequence[Place]) -> str:
    ours = [place.contestant for place in places if place.contestant.is_ours]
    return min(ours, key=lambda each: _FASTEST_FIRST.index(each.precision)).name


def _cell(ours: Place, theirs: Place | None, clock: Clock) -> str:
    if theirs is None or theirs.is_wrong:
        return "–"
    return str(speed_ratio(ours.durations, theirs.durations, clock))
