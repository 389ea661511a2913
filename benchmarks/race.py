"""Engines decode the same sentences: first for equal translations, then for speed."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from benchmarks.engine import Ids, Translations
from benchmarks.lineup import Contestant
from benchmarks.report import rounded
from benchmarks.rounds import Clock, Duration, Ratio, median_seconds, speed_ratio, take_turns
from model.request import DecodeOptions

COLUMNS = (
    "network",
    "search",
    "threads",
    "batch",
    "engine",
    "as the reference",
    "as ours",
    "BLEU",
    "sentences/s",
    "ours is … × this",
)
_EXACT = "float32"
Score = Callable[[Translations], float]


class Runner(Protocol):
    """A contestant that is ready."""

    @property
    def contestant(self) -> Contestant:
        """Who it is."""

    def decode(
        self, sources: Sequence[Ids], options: DecodeOptions, batch_size: int
    ) -> tuple[Translations, Duration]:
        """Translations of the sources, and how long they took."""


@dataclass(frozen=True, kw_only=True)
class Race:
    """One piece of work that all engines do.

    Attributes:
        network: What to call it.
        search: What to call the options.
        options: How to decode.
        threads: Of each engine.
        batch_size: Sentences a thread decodes at a time.
        sources: Token ids, the longest first; all are translated once a round.
        least_same: Share of its translations that an engine in float32 must have in common with the
            reference; 0 where searches differ by design.
    """

    network: str
    search: str
    options: DecodeOptions
    threads: int
    batch_size: int
    sources: Sequence[Ids]
    least_same: float


@dataclass(frozen=True, kw_only=True)
class Place:
    """How one engine did in one race.

    Attributes:
        race: The work.
        contestant: Whose.
        same: How many translations are those of the reference, token by token.
        same_as_ours: How many are those of ours in the same precision; None if there is no other.
        bleu: Of the translations, where there are references.
        tokens: Target tokens of a round.
        durations: Of each round.
        opponent: Ours in the same precision for a peer, the reference for another of ours.
        ratio: How many times as fast the opponent is.
    """

    race: Race
    contestant: Contestant
    same: int
    same_as_ours: int | None
    bleu: float | None
    tokens: int
    durations: Sequence[Duration]
    opponent: Contestant | None
    ratio: Ratio | None

    @property
    def is_wrong(self) -> bool:
        """Whether it computes something else, so that its speed means nothing."""
        least = self.race.least_same * len(self.race.sources)
        return self.contestant.precision == _EXACT and self.same < least

    def cells(self, clock: Clock) -> tuple[str, ...]:
        """A row of the table; what computes something else gets no figures."""
        race, speed, comparison = self.race, "–", "other translations: not comparable"
        if not self.is_wrong:
            speed = rounded(len(race.sources) / median_seconds(self.durations, clock))
            comparison = f"{self.ratio} ({self.opponent.name})" if self.opponent else "–"
        return (
            race.network,
            race.search,
            str(race.threads),
            str(race.batch_size),
            self.contestant.name,
            self._share(self.same),
            "–" if self.same_as_ours is None else self._share(self.same_as_ours),
            "–" if self.bleu is None else f"{self.bleu:.2f}",
            speed,
            comparison,
        )

    def to_dict(self) -> dict[str, object]:
        """Everything measured, for JSON."""
        race = self.race
        return {
            "kind": "speed",
            "network": race.network,
            "search": race.search,
            "threads": race.threads,
            "batch_size": race.batch_size,
            "sentences": len(race.sources),
            "engine": self.contestant.engine,
            "precision": self.contestant.precision,
            "same_translations": self.same,
            "same_as_ours": self.same_as_ours,
            "is_wrong": self.is_wrong,
            "bleu": self.bleu,
            "target_tokens": self.tokens,
            "seconds": [asdict(duration) for duration in self.durations],
            "opponent": self.opponent.name if self.opponent else None,
            "ratio": None if self.ratio is None else asdict(self.ratio),
        }

    def _share(self, same: int) -> str:
        return f"{same / len(self.race.sources):.1%}"


def hold(
    race: Race, runners: Sequence[Runner], rounds: int, clock: Clock, score: Score | None = None
) -> list[Place]:
    """Compare translations, which also warms the engines up, then time the engines in turns.

    Args:
        race: The work.
        runners: Engines, one of ours among them.
        rounds: Timed repetitions.
        clock: What ratios are computed from.
        score: BLEU of translations, where there are references.
    """
    translations = {each.contestant.name: _run(race, each)[0] for each in runners}
    timings = take_turns({each.contestant.name: _repeat(race, each) for each in runners}, rounds)
    field = [each.contestant for each in runners]
    reference = translations[reference_of(field).name]
    places = []
    for contestant in field:
        produced, durations = translations[contestant.name], timings[contestant.name]
        opponent = opponent_of(contestant, field)
        alike = opponent is not None and opponent.precision == contestant.precision
        places.append(
            Place(
                race=race,
                contestant=contestant,
                same=_equal(produced, reference),
                same_as_ours=_equal(produced, translations[opponent.name]) if opponent and alike else None,
                bleu=None if score is None else score(produced),
                tokens=sum(map(len, produced)),
                durations=durations,
                opponent=opponent,
                ratio=speed_ratio(timings[opponent.name], durations, clock) if opponent else None,
            )
        )
    return places


def reference_of(field: Sequence[Contestant]) -> Contestant:
    """Whose translations are right: the first of ours in float32, else the first of ours."""
    ours = [each for each in field if each.is_ours]
    return next((each for each in ours if each.precision == _EXACT), ours[0])


def opponent_of(contestant: Contestant, field: Sequence[Contestant]) -> Contestant | None:
    """Whom of ours to compare with: the first in the same precision, else the reference; never itself."""
    reference = reference_of(field)
    alike = (each for each in field if each.is_ours and each.precision == contestant.precision)
    chosen = next(alike, reference)
    if chosen is not contestant:
        return chosen
    return None if contestant is reference else reference


def _run(race: Race, runner: Runner) -> tuple[Translations, Duration]:
    return runner.decode(race.sources, race.options, race.batch_size)


def _repeat(race: Race, runner: Runner) -> Callable[[int], Duration]:
    return lambda _round: _run(race, runner)[1]


def _equal(produced: Translations, expected: Translations) -> int:
    return sum(a == b for a, b in zip(produced, expected, strict=True))
