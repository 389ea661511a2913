"""Shared by all tests: a tiny tokenizer and checkpoint, made once a run, and a running service."""

import fcntl
import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from tests.app.remote import Live

# So that the assertions of what tests share tell their values, too.
pytest.register_assert_rewrite(*(f"tests.{path.stem}" for path in Path(__file__).parent.iterdir()))

# Before torch is loaded: on a busy machine, threads that wait for each other make tiny work 50 times slower.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Before Triton is loaded: kernels run on the CPU, by Triton's interpreter.
os.environ.setdefault("TRITON_INTERPRET", "1")

# `make test` draws the same examples every time, however slow the machine; `make explore` draws new ones.
_PATIENT = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile("same", _PATIENT, derandomize=True)
hypothesis.settings.register_profile("explore", _PATIENT)
hypothesis.settings.load_profile("same")

# Short enough to be learnt by heart, different enough to need the source.
PHRASES = (
    ("Good morning.", "Bonjour."),
    ("Thank you.", "Merci."),
    ("Where is the station?", "Où est la gare ?"),
    ("The cat sleeps.", "Le chat dort."),
    ("The dog sleeps.", "Le chien dort."),
    ("I am hungry.", "J'ai faim."),
)


def pytest_sessionstart() -> None:
    """Modules and tests live until the end, so that garbage collections need not look at them.

    They would take a third of the time in which pytest collects the tests, and a tenth of some tests.
    """
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def tiny_tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shared unigram vocabulary of 309 pieces with byte fallback and the tags <2en> and <2fr>."""
    from tests.tiny import train_tokenizer

    folder = tmp_path_factory.mktemp("tokenizer")
    train_tokenizer(folder, PHRASES)
    return folder


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer_folder: Path) -> Path:
    """A checkpoint folder that translates PHRASES in both directions; do not write into it.

    The first process that needs it trains it, in two seconds, for all processes of the run.
    """
    from tests.tiny import train_checkpoint

    root = tmp_path_factory.getbasetemp()
    folder = (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / "tiny"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            train_checkpoint(folder, tiny_tokenizer_folder, PHRASES)
    return folder


@pytest.fixture(scope="session")
def live() -> Iterator["Live"]:
    """A running service with a double backend, in a process of its own."""
    from tests.app.remote import running

    with running() as service:
        yield service
