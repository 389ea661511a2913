"""Loading a model until it may serve: its files, its engines, and its self-test sentences."""

import dataclasses
from collections.abc import Sequence

from app.backend import Backend, Engine, LoadedModel, Model
from model.checkpoint.self_test import require_self_test
from model.decode_request import DecodeRequest
from model.decoding.runner import SilentObserver
from model.decoding.sentence import Sentence
from model.errors import CheckpointError, TranslationError
from model.text.tokenizer import Tokenizer

_TEXT = "Congratulations, everything is ready."
_LONGEST = 16


def load_verified(backend: Backend, model: Model) -> LoadedModel:
    """Load a model, and let each of its engines translate; blocks.

    The translations of self-test sentences must be those of when the checkpoint was written.

    Raises:
        TranslationError: If it cannot be loaded.
        CheckpointError: If an engine cannot translate, or translates otherwise; the checkpoint is named.
    """
    loaded = backend.load(model)
    try:
        for engine in loaded.engines:
            _try_out(model, loaded.tokenizer, engine)
    except Exception as error:  # whatever it is: close the engines, then raise it again
        loaded.close()
        if isinstance(error, TranslationError):
            raise CheckpointError(f"checkpoint {model.card.name} cannot be served: {error}") from error
        raise
    return loaded


def _try_out(model: Model, tokenizer: Tokenizer, engine: Engine) -> None:
    if not model.self_test:
        _decode(engine, [_request(model, tokenizer)], tokenizer)
        return
    translations = _decode(engine, [each.request(tokenizer) for each in model.self_test], tokenizer)
    require_self_test(model.self_test, translations)


def _request(model: Model, tokenizer: Tokenizer) -> DecodeRequest:
    card = model.card
    source, target = card.pairs[0]
    ids = tokenizer.encode(_TEXT, source_language=source, target_language=target)
    length = min(_LONGEST, card.max_target_length)
    options = dataclasses.replace(card.decoding, max_length=length, min_length=0, min_length_ratio=0.0)
    start_ids = tokenizer.target_prefix(source, target)
    return DecodeRequest(tuple(ids[-card.max_source_length :]), options, start_ids=start_ids)


def _decode(engine: Engine, requests: Sequence[DecodeRequest], tokenizer: Tokenizer) -> list[str]:
    sentences = [engine.add(request) for request in requests]
    texts: dict[Sentence, str] = {}
    while not engine.is_idle:
        for sentence, result in engine.step(SilentObserver(), max_steps=1).finished:
            if isinstance(result, TranslationError):
                raise result
            texts[sentence] = tokenizer.decode(result[0].token_ids)
    return [texts[sentence] for sentence in sentences]
