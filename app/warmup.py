"""⑤ Every engine translates a sentence before the first client does: what is slow or broken shows at once."""

import dataclasses

from app.backend import Backend, Engine, LoadedModel
from model.decoding.observer import SilentObserver
from model.errors import CheckpointError, TranslationError
from model.request import DecodeRequest

_TEXT = "Congratulations, everything is ready."
_LONGEST = 16


def warm_up(backend: Backend) -> None:
    """Let each worker's engine of each checkpoint translate; no thread may drive them yet.

    Raises:
        CheckpointError: If one cannot; the checkpoint is named.
    """
    for model in backend.models():
        for worker in range(backend.workers):
            engine = backend.engine(model.card.name, worker)
            _decode(engine, _request(model), model.card.name)


def _request(model: LoadedModel) -> DecodeRequest:
    card = model.card
    ids = model.tokenizer.encode(_TEXT, target_language=card.pairs[0][1])
    length = min(_LONGEST, card.max_target_length)
    options = dataclasses.replace(card.decoding, max_length=length, min_length=0, min_length_ratio=0.0)
    return DecodeRequest(tuple(ids[-card.max_source_length :]), options)


def _decode(engine: Engine, request: DecodeRequest, name: str) -> None:
    engine.add(request)
    while not engine.is_idle:
        for _, result in engine.step(SilentObserver(), max_steps=1).finished:
            if isinstance(result, TranslationError):
                raise CheckpointError(f"{name} cannot translate: {result}")
