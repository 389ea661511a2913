"""Our service with an engine that answers at once, or after a sleep: what is left is HTTP, text and queueing.

It answers with the source's tokens in reverse: a copy of the source would get a second attempt.
"""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from app.backend import LoadedModel, Model
from app.connection.server import serve
from app.main import create_app
from app.settings import Settings
from app.telemetry.logs import set_up_logs
from model.checkpoint.folder import load_checkpoint
from model.decode_request import DecodeRequest, Hypothesis
from model.decoding.runner import Progress, Result, StepRecord
from model.decoding.sentence import Sentence

_MOST_SENTENCES = 256


class _NullEngine:
    """See Engine; one step decodes every sentence that was added, and sleeps some seconds for each."""

    def __init__(self, seconds: float) -> None:
        self._added: list[Sentence] = []
        self._seconds = seconds

    @property
    def is_idle(self) -> bool:
        return not self._added

    @property
    def running(self) -> int:
        return len(self._added)

    def fits(self, request: DecodeRequest) -> bool:
        return len(self._added) < _MOST_SENTENCES

    def add(self, request: DecodeRequest) -> Sentence:
        sentence = Sentence(request, 0, len(request.source_ids), seed=0)
        self._added.append(sentence)
        return sentence

    def cancel(self, sentence: Sentence) -> None:
        self._added = [each for each in self._added if each is not sentence]

    def step(self, *, max_steps: int) -> Progress:
        sentences, self._added = self._added, []
        time.sleep(self._seconds * len(sentences))
        return Progress(
            finished=[(sentence, _reversed(sentence.request)) for sentence in sentences],
            steps=[StepRecord(0.0, len(sentences), len(sentences))],
            started=sentences,
            first_token_seconds=[0.0] * len(sentences),
            encoder_seconds=[0.0],
        )

    def interrupt(self) -> None:
        pass

    def stable_prefix(self, sentence: Sentence) -> tuple[int, ...]:
        return ()

    def close(self) -> None:
        pass


class NullBackend:
    """A checkpoint's tokenizer and card, and an engine without a network.

    Args:
        folder: The checkpoint folder.
        seconds: Time that the engine sleeps for each sentence.
    """

    workers = 1

    def __init__(self, folder: Path, seconds: float = 0.0) -> None:
        checkpoint = load_checkpoint(folder)
        self._model = Model(
            card=checkpoint.card,
            checksum=checkpoint.checksum,
            device="cpu",
            precision="float32",
            parameters=0,
            memory_bytes=0,
        )
        self._loaded = LoadedModel(
            tokenizer=checkpoint.tokenizer,
            engines=(_NullEngine(seconds),),
            precision="float32",
            memory_bytes=0,
            seconds=0.0,
        )

    def list_models(self) -> Sequence[Model]:
        """See Backend."""
        return [self._model]

    def load(self, model: Model) -> LoadedModel:
        """See Backend."""
        return self._loaded

    def verify(self, model: Model) -> None:
        """See Backend."""


def _reversed(request: DecodeRequest) -> Result:
    ids = request.source_ids[-2:0:-1]
    return [
        Hypothesis(
            token_ids=ids,
            score=0.0,
            log_probability=0.0,
            token_log_probabilities=(0.0,) * (len(ids) + 1),
            finished=True,
        )
    ]


def main(port: str, checkpoint: str) -> None:
    """Serve a checkpoint on 127.0.0.1; log lines are formatted as always, and discarded."""
    settings = Settings(checkpoint=(Path(checkpoint),), port=int(port))
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    set_up_logs(settings.log_level)
    serve(create_app(settings, NullBackend(settings.checkpoint[0])), settings)


if __name__ == "__main__":
    main(*sys.argv[1:])
