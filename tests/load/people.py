"""Simulated clients, and what each of them asks for. Importing this changes sockets, as locust does."""

import os
from collections.abc import Sequence
from random import Random

from locust import FastHttpUser

from tests.load.answers import fault
from tests.load.arrivals import REFUSALS
from tests.load.objectives import REFUSED
from tests.load.target import keys_of
from tests.load.texts import DIRECTIONS, TEXTS

_KEYS = keys_of(os.environ.get("LOAD_API_KEYS", ""))


class Person(FastHttpUser):
    """Sends requests and looks at the answers; what it asks for, and how often, its kinds know.

    Attributes:
        draw: All that is random about it.
    """

    abstract = True
    connection_timeout = 60.0
    network_timeout = 60.0
    default_headers = {"Authorization": f"Bearer {_KEYS[0]}"} if _KEYS else {}
    draw = Random(1)

    def direction(self) -> tuple[str, str]:
        """Source and target language."""
        return self.draw.choice(DIRECTIONS)

    def sentence(self, kind: str) -> None:
        """Have one sentence translated."""
        source, target = self.direction()
        self.translate(kind, self.draw.choice(TEXTS[source]), source, target)

    def sentences(self, kind: str, least: int, most: int) -> None:
        """Have a list of sentences translated."""
        source, target = self.direction()
        count = self.draw.randint(least, most)
        self.translate(kind, self.draw.choices(TEXTS[source], k=count), source, target)

    def translate(self, kind: str, text: str | Sequence[str], source: str, target: str) -> None:
        """Send a request, and note it under its kind, or as refused; a fault is a failure.

        Args:
            kind: Name in the table.
            text: One, or several.
            source: Language of the text.
            target: Language to translate into.
        """
        body = {"q": text, "source": source, "target": target}
        with self.client.post("/translate", json=body, name=kind, catch_response=True) as response:
            if response.status_code in REFUSALS and "Retry-After" in response.headers:
                response.request_meta["name"] = REFUSED
                response.success()
            elif response.status_code != 200:
                response.failure(f"status {response.status_code}")
            elif wrong := fault(text, response.json()["translatedText"]):
                response.failure(wrong)
