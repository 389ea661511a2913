"""People and programs that translate: single sentences mostly, some lists, a few documents.

Ends with exit status 1 when an objective is missed. LOAD_P95_SCALE multiplies the time limits, which are
meant for two CPU cores of their own: 0.1 for a GPU, 4 for a machine that is busy with something else.
"""

import logging
import os
import random
import sys
import time

from gevent import sleep
from locust import FastHttpUser, between, events, task
from locust.contrib.fasthttp import FastResponse
from locust.env import Environment
from objectives import REFUSED, Measured, Objectives
from requests import RequestException, get
from texts import DIRECTIONS, PARAGRAPH_BREAK, TEXTS

SCALE = float(os.environ.get("LOAD_P95_SCALE", "1"))
OBJECTIVES = Objectives(
    p95_ms={
        "one sentence": 1500 * SCALE,
        "list": 5000 * SCALE,
        "mixed lengths": 4000 * SCALE,
        "document": 6000 * SCALE,
    }
)
READY_SECONDS = float(os.environ.get("LOAD_READY_SECONDS", "120"))
REFUSALS = (429, 503)
LOG = logging.getLogger("load")


class Translator(FastHttpUser):
    """Sends a request, reads the answer, thinks for a moment."""

    wait_time = between(0.2, 1.5)

    @task(10)
    def one_sentence(self) -> None:
        """A person types a sentence."""
        source, target = random.choice(DIRECTIONS)
        self._translate("one sentence", random.choice(TEXTS[source]), source, target)

    @task(3)
    def list_of_sentences(self) -> None:
        """A program translates the strings of its interface."""
        source, target = random.choice(DIRECTIONS)
        self._translate("list", random.choices(TEXTS[source], k=random.randint(4, 16)), source, target)

    @task(2)
    def mixed_lengths(self) -> None:
        """The shortest and the longest texts side by side, which padding would punish."""
        source, target = random.choice(DIRECTIONS)
        by_length = sorted(TEXTS[source], key=len)
        self._translate("mixed lengths", [by_length[0], by_length[-1], by_length[1], ""], source, target)

    @task(1)
    def document(self) -> None:
        """A person pastes a page of three paragraphs."""
        source, target = random.choice(DIRECTIONS)
        paragraphs = (" ".join(random.sample(TEXTS[source], k=5)) for _ in range(3))
        self._translate("document", PARAGRAPH_BREAK.join(paragraphs), source, target)

    def _translate(self, kind: str, text: str | list[str], source: str, target: str) -> None:
        body = {"q": text, "source": source, "target": target}
        with self.client.post("/translate", json=body, name=kind, catch_response=True) as response:
            if response.status_code in REFUSALS and "Retry-After" in response.headers:
                response.request_meta["name"] = REFUSED
                response.success()
            elif fault := _fault(text, response):
                response.failure(fault)


def _fault(text: str | list[str], response: FastResponse) -> str | None:
    """What is wrong with an answer: each text needs a result, blank only where the text is, breaks kept."""
    if response.status_code != 200:
        return f"status {response.status_code}"
    translated = response.json()["translatedText"]
    if type(translated) is not type(text):
        return f"a {type(translated).__name__} answers a {type(text).__name__}"
    texts, results = ([text], [translated]) if isinstance(text, str) else (text, translated)
    if len(texts) != len(results):
        return f"{len(results)} results for {len(texts)} texts"
    for original, result in zip(texts, results, strict=True):
        if bool(original.strip()) != bool(result.strip()):
            return "a blank translation"
        if original.count(PARAGRAPH_BREAK) != result.count(PARAGRAPH_BREAK):
            return "paragraphs were joined or split"
    return None


@events.test_start.add_listener
def wait_until_ready(environment: Environment, **_: object) -> None:
    """Begin only when the service is ready, so that loading a model is not measured as slowness."""
    deadline = time.monotonic() + READY_SECONDS
    while not _is_ready(f"{environment.host}/readyz"):
        if time.monotonic() > deadline:
            sys.exit(f"{environment.host} was not ready within {READY_SECONDS:g} s")
        sleep(0.5)


def _is_ready(url: str) -> bool:
    try:
        return get(url, timeout=2).ok
    except RequestException:
        return False


@events.quitting.add_listener
def judge(environment: Environment, **_: object) -> None:
    """Print what was missed and set the exit status."""
    measured = {
        entry.name: Measured(
            requests=entry.num_requests,
            failures=entry.num_failures,
            p95_ms=entry.get_response_time_percentile(0.95) or 0.0,
        )
        for entry in environment.stats.entries.values()
    }
    missed = OBJECTIVES.missed(measured)
    for line in missed:
        LOG.error("objective missed: %s", line)
    if not missed:
        LOG.info("every objective was met")
    environment.process_exit_code = 1 if missed else 0
