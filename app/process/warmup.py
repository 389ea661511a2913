"""⑤ Every engine translates before the first client comes: what is slow, broken or wrong shows at once."""

import dataclasses
from collections.abc import Sequence

from app.backend import Backend, Engine, LoadedModel
from model.decoding.observer import SilentObserver
from model.decoding.sentence import Sentence
from model.errors import CheckpointError, TranslationError
from model.golden import require_alike
from model.request import DecodeRequest

_TEXT = "Congratulations, everything is ready."
_LONGEST = 16


def warm_up(backend: Backend) -> None:
    """Let each worker's engine of each checkpoint translate; no thread may drive them yet.

    Golden sentences must come out as they did when the checkpoint was written.

    Raises:
        CheckpointError: If one cannot, or does otherwise; the checkpoint is named.
    """
    for model in backend.models():
        for worker in range(backend.workers):
            try:
                _try_out(model, backend.engine(model.card.name, worker))
            except TranslationError as error:
                raise CheckpointError(f"checkpoint {model.card.name} cannot be served: {error}") from error


def _try_out(model: LoadedModel, engine: Engine) -> None:
    if not model.golden:
        _decode(engine, [_request(model)], model)
        return
    translations = _decode(engine, [golden.request(model.tokenizer) for golden in model.golden], model)
    require_alike(model.golden, translations)


def _request(model: LoadedModel) -> DecodeRequest:
    card = model.card
    ids = model.tokenizer.encode(_TEXT, target_language=card.pairs[0][1])
    length = min(_LONGEST, card.max_target_length)
    options = dataclasses.replace(card.decoding, max_length=length, min_length=0, min_length_ratio=0.0)
    return DecodeRequest(tuple(ids[-card.max_source_length :]), options)


def _decode(engine: Engine, requests: Sequence[DecodeRequest], model: LoadedModel) -> list[str]:
    sentences = [engine.add(request) for request in requests]
    texts: dict[Sentence, str] = {}
    while not engine.is_idle:
        for sentence, result in engine.step(SilentObserver(), max_steps=1).finished:
            if isinstance(result, TranslationError):
                raise result
            texts[sentence] = model.tokenizer.decode(result[0].token_ids)
    return [texts[sentence] for sentence in sentences]
