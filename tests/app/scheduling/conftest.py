"""Sentences for the tests of engine batches and workers."""

import time
from collections.abc import Callable

import pytest

from app.scheduling.backlog import SentenceJob
from model.decode_request import DecodeOptions, DecodeRequest
from tests.app.double import DoubleBackend

GREEDY = DecodeOptions(strategy="greedy")
NewJob = Callable[..., SentenceJob]


@pytest.fixture
def job(backend: DoubleBackend) -> NewJob:
    def new(text: str, *, options: DecodeOptions = GREEDY, is_streamed: bool = False) -> SentenceJob:
        request = DecodeRequest(tuple(backend.tokenizer.encode(text)), options)
        return SentenceJob(backend.model("tiny"), request, float("inf"), time.monotonic(), is_streamed)

    return new
