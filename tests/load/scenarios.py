"""Who comes, in each scenario, and what they were promised. Importing this changes sockets, as locust does.

Times are meant for two CPU cores that do nothing else; LOAD_SCALE multiplies them.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gevent import sleep
from locust import between, constant, constant_pacing, task

from tests.load.fairness import Modest, fairness_levels
from tests.load.objectives import Level, Measured, Objectives
from tests.load.people import Person
from tests.load.texts import TEXTS, document, longest_document

SCALE = float(os.environ.get("LOAD_SCALE") or 1)
_BURST_SECONDS = 10
_MOST_CHARACTERS = 10_000


class Visitor(Person):
    """A mixture of everything: sentences mostly, some lists, a few documents, thinking in between."""

    wait_time = between(0.2, 1.5)

    @task(10)
    def one_sentence(self) -> None:
        """A person types a sentence."""
        self.sentence("one sentence")

    @task(3)
    def interface(self) -> None:
        """A program translates the strings of its interface."""
        self.sentences("list", 4, 16)

    @task(2)
    def mixed_lengths(self) -> None:
        """The shortest and the longest texts side by side, which padding would punish."""
        source, target = self.direction()
        by_length = sorted(TEXTS[source], key=len)
        self.translate("mixed lengths", [by_length[0], by_length[-1], by_length[1], ""], source, target)

    @task(1)
    def page(self) -> None:
        """A person pastes a page of three paragraphs."""
        source, target = self.direction()
        self.translate("document", document(self.draw, source), source, target)


class Regular(Person):
    """A sentence a second, come what may."""

    wait_time = constant_pacing(1)

    @task
    def one_sentence(self) -> None:
        """The same again."""
        self.sentence("one sentence")


class Crowd(Person):
    """All at the same moment, and again some seconds later."""

    wait_time = constant(0)

    @task
    def with_all_others(self) -> None:
        """Wait for the moment, and go."""
        sleep(_BURST_SECONDS - time.monotonic() % _BURST_SECONDS)
        self.sentence("in a burst")


class Short(Person):
    """A stream of sentences."""

    weight = 3
    wait_time = constant(0.05)

    @task
    def one_sentence(self) -> None:
        """A sentence, and another."""
        self.sentence("short")


class Long(Person):
    """One text as long as the service permits, after the other."""

    weight = 1
    wait_time = constant(0)

    @task
    def whole_document(self) -> None:
        """A text of hundreds of sentences."""
        source, target = self.direction()
        self.translate("long", longest_document(self.draw, source, _MOST_CHARACTERS), source, target)


class Batch(Person):
    """A program that translates in bulk."""

    wait_time = constant(0)

    @task
    def many(self) -> None:
        """As many texts as a request may have, or a quarter of them."""
        self.sentences("batch", 64, 256)


def _nothing_more(_measured: Mapping[str, Measured]) -> Sequence[Level]:
    return ()


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Who comes, and what they were promised.

    Attributes:
        people: Kinds of clients.
        objectives: What each kind of request was promised.
        more: Further objectives.
    """

    people: Sequence[type[Person]]
    objectives: Objectives
    more: Callable[[Mapping[str, Measured]], Sequence[Level]] = _nothing_more

    def levels(self, measured: Mapping[str, Measured]) -> list[Level]:
        """How a run did."""
        return [*self.objectives.levels(measured), *self.more(measured)]


def _promised(kinds: Mapping[str, Mapping[float, float]], *, refusals: float = 0.01) -> Objectives:
    scaled = {kind: {share: ms * SCALE for share, ms in limits.items()} for kind, limits in kinds.items()}
    return Objectives(latency_ms=scaled, refusals=refusals)


SCENARIOS: Mapping[str, Scenario] = {
    "mixture": Scenario(
        people=[Visitor],
        objectives=_promised(
            {
                "one sentence": {0.95: 1500},
                "list": {0.95: 5000},
                "mixed lengths": {0.95: 4000},
                "document": {0.95: 6000},
            }
        ),
    ),
    "steady": Scenario(
        people=[Regular],
        objectives=_promised({"one sentence": {0.5: 200, 0.95: 500, 0.99: 1000}}, refusals=0),
    ),
    "burst": Scenario(
        people=[Crowd], objectives=_promised({"in a burst": {0.5: 5000, 0.99: 10_000}}, refusals=0.5)
    ),
    "lengths": Scenario(
        people=[Short, Long],
        objectives=_promised({"short": {0.5: 2000, 0.99: 5000}, "long": {0.99: 20_000}}),
    ),
    "fairness": Scenario(
        people=[Modest],
        objectives=Objectives(latency_ms={}, refusals=0),
        more=fairness_levels,
    ),
    "batches": Scenario(people=[Batch], objectives=_promised({"batch": {0.5: 10_000, 0.99: 20_000}})),
}
