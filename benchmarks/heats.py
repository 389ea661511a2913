"""Races that the same engine processes run one after another, and what those processes cost."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.checkpoints import random_checkpoint
from benchmarks.lineup import Contestant
from benchmarks.options import Timing
from benchmarks.process import EngineProcess, Footprint
from benchmarks.race import Place, Race, Score, hold
from benchmarks.report import mebibytes
from benchmarks.shapes import SHAPES
from benchmarks.stable import Stable
from benchmarks.text import Text
from benchmarks.work import Scale, random_races, text_races

FOOTPRINT_COLUMNS = ("network", "threads", "engine", "seconds to ready", "MiB loaded", "MiB at most")


@dataclass(frozen=True, kw_only=True)
class Heat:
    """Races that the same processes run one after another.

    Attributes:
        folder: Of the checkpoint.
        network: What to call it.
        threads: Of each engine.
        races: The work.
        score: BLEU of translations, where there are references.
    """

    folder: Path
    network: str
    threads: int
    races: Sequence[Race]
    score: Score | None


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one engine cost beside time, in one heat."""

    network: str
    threads: int
    engine: str
    footprint: Footprint

    def cells(self) -> tuple[str, ...]:
        """A row of the table."""
        memory = (mebibytes(self.footprint.resident), mebibytes(self.footprint.peak))
        seconds = f"{self.footprint.seconds_to_ready:.1f}"
        return self.network, str(self.threads), self.engine, seconds, *memory

    def to_dict(self) -> dict[str, object]:
        """Everything measured, for JSON."""
        return {"kind": "footprint", **asdict(self)}


def hold_heat(
    heat: Heat, stable: Stable, field: Sequence[Contestant], timing: Timing
) -> tuple[list[Place], list[Cost]]:
    """Start the engines, let them take turns at every race, and end them.

    Args:
        heat: The work.
        stable: Where engines find their weights.
        field: Who takes part; those whose format cannot hold the network stay away.
        timing: How to measure.
    """
    with ExitStack() as running:
        processes = [
            running.enter_context(EngineProcess(each, folder, heat.threads))
            for each in field
            if (folder := stable.folder_of(each)) is not None
        ]
        places = [
            place
            for race in heat.races
            for place in hold(race, processes, timing.rounds, timing.clock, heat.score)
        ]
        costs = [
            Cost(
                network=heat.network,
                threads=heat.threads,
                engine=each.contestant.name,
                footprint=each.footprint(),
            )
            for each in processes
        ]
    return places, costs


def random_heats(
    scratch: Path, shapes: Sequence[str], scale: Scale, tokens: int, timing: Timing
) -> Iterator[Heat]:
    """Networks of these shapes, a heat for each number of threads; they are written when asked for."""
    for shape in shapes:
        folder = random_checkpoint(scratch / shape, shape, timing.seed)
        for threads in scale.threads:
            races = random_races(shape, SHAPES[shape], scale, threads, tokens, timing.seed)
            yield Heat(folder=folder, network=shape, threads=threads, races=races, score=None)


def text_heats(text: Text, scale: Scale) -> Iterator[Heat]:
    """One checkpoint on a user's text, a heat for each number of threads."""
    checkpoint = text.checkpoint
    for threads in scale.threads:
        yield Heat(
            folder=checkpoint.folder,
            network=checkpoint.card.name,
            threads=threads,
            races=text_races(checkpoint.card, text.sources, scale, threads),
            score=text.bleu if text.references else None,
        )
