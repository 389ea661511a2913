"""Engines decode the same sentences: first for equal translations, then for speed."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

from benchmarks.engine import OURS, Engine, Ids
from benchmarks.report import rounded
from benchmarks.rounds import Clock, Duration, Ratio, median_seconds, speed_ratio, take_turns
from model.request import DecodeOptions

COLUMNS = ("network", "search", "batch", "engine", "translations as the first", "sentences/s", "comparison")
_EXACT = "float32"


@dataclass(frozen=True, kw_only=True)
class Race:
    """One piece of work that all engines do.

    Attributes:
        network: What to call it.
        search: What to call the options.
        options: How to decode.
        batch_size: Sentences an engine gets at a time.
        sources: Token ids; translated once a round.
    """

    network: str
    search: str
    options: DecodeOptions
    batch_size: int
    sources: Sequence[Ids]

    def batches(self) -> Iterator[Sequence[Ids]]:
        """The sources in portions of the batch size."""
        for start in range(0, len(self.sources), self.batch_size):
            yield self.sources[start : start + self.batch_size]

    def run(self, engine: Engine) -> list[tuple[int, ...]]:
        """One engine's translations of all sources."""
        return list(
            itertools.chain.from_iterable(engine.decode(batch, self.options) for batch in self.batches())
        )


@dataclass(frozen=True, kw_only=True)
class Place:
    """How one engine did in one race.

    Attributes:
        race: The work.
        engine: Whose.
        precision: In what.
        same: How many translations are those of the first engine, token by token.
        tokens: Target tokens of a round.
        durations: Of each round.
        opponent: Whom it is compared with: its own kind in float32, or ours if it is a peer.
        ratio: How many times as fast ours is as the peer, or as the first of ours.
    """

    race: Race
    engine: str
    precision: str
    same: int
    tokens: int
    durations: Sequence[Duration]
    opponent: str | None
    ratio: Ratio | None

    @property
    def is_wrong(self) -> bool:
        """Whether it computes something else: float32 must give the very same translations."""
        return self.precision == _EXACT and self.same < len(self.race.sources)

    def cells(self, clock: Clock) -> tuple[str, ...]:
        """A row of the table; what computes something else gets no figures."""
        speed, comparison = "–", "other translations: not comparable"
        if not self.is_wrong:
            speed = rounded(len(self.race.sources) / median_seconds(self.durations, clock))
            comparison = self._comparison()
        return (
            self.race.network,
            self.race.search,
            str(self.race.batch_size),
            f"{self.engine} {self.precision}",
            f"{self.same} of {len(self.race.sources)}",
            speed,
            comparison,
        )

    def _comparison(self) -> str:
        if self.ratio is None:
            return ""
        if self.engine == OURS:
            return f"{self.ratio} × {self.opponent}"
        return f"{self.opponent} is {self.ratio} × this"

    def to_dict(self) -> dict[str, object]:
        """Everything measured, for JSON."""
        race = self.race
        return {
            "network": race.network,
            "search": race.search,
            "batch_size": race.batch_size,
            "sentences": len(race.sources),
            "engine": self.engine,
            "precision": self.precision,
            "same_translations": self.same,
            "target_tokens": self.tokens,
            "seconds": [asdict(duration) for duration in self.durations],
            "opponent": self.opponent,
            "ratio": None if self.ratio is None else asdict(self.ratio),
        }


def hold(race: Race, engines: Sequence[Engine], rounds: int, clock: Clock) -> list[Place]:
    """Compare translations, which also warms the engines up, then time the engines in turns.

    Args:
        race: The work.
        engines: The first of them is the reference for the translations.
        rounds: Timed repetitions.
        clock: What ratios are computed from.
    """
    names = [f"{engine.name} {engine.precision}" for engine in engines]
    translations = [race.run(engine) for engine in engines]
    timings = take_turns({name: _repeat(race, e) for name, e in zip(names, engines, strict=True)}, rounds)
    places = []
    for name, engine, produced in zip(names, engines, translations, strict=True):
        opponent = _opponent(engine, engines)
        subject, baseline = (name, opponent) if engine.name == OURS else (opponent, name)
        places.append(
            Place(
                race=race,
                engine=engine.name,
                precision=engine.precision,
                same=sum(a == b for a, b in zip(produced, translations[0], strict=True)),
                tokens=sum(map(len, produced)),
                durations=timings[name],
                opponent=opponent,
                ratio=speed_ratio(timings[subject], timings[baseline], clock)
                if subject and baseline
                else None,
            )
        )
    return places


def _repeat(race: Race, engine: Engine) -> Callable[[int], object]:
    return lambda _round: race.run(engine)


def _opponent(engine: Engine, engines: Sequence[Engine]) -> str | None:
    """Ours in the same precision for a peer, the first of ours for another of ours; None for the first."""
    ours = [other for other in engines if other.name == OURS]
    if engine is ours[0]:
        return None
    alike = [other for other in ours if other.precision == engine.precision and engine.name != OURS]
    chosen = (alike or ours)[0]
    return f"{chosen.name} {chosen.precision}"
