"""⑨ The fields of an answer, made from translations."""

from collections.abc import Sequence
from typing import Final, TypeVar

from pydantic import TypeAdapter
from pydantic_core import to_json
from starlette.responses import Response

from app.backend import Model
from app.http import schemas
from app.http.body import JSON
from app.settings import Settings
from app.translation.catalogue import Route
from app.translation.request import Answer
from model.text.detection import Detection
from model.translation.result import Diagnosis

Content = TypeVar("Content")
_UNCHANGED: Final = (None, None, None)
Detections: Final = TypeAdapter(list[schemas.DetectedLanguage])


def answered(shape: TypeAdapter[Content], content: Content) -> Response:
    """Returns an answer of status 200 without the fields that were not set."""
    return Response(shape.dump_json(content, exclude_unset=True), media_type=JSON)


def translate_response(body: schemas.TranslateRequest, answers: Sequence[Answer]) -> Response:
    """Returns the answer with the fields that a request asks for: lists for a list of texts, else values.

    Its fields are those of TranslateResponse, which a test checks: a check of each answer costs more than it.
    """
    fields: dict[str, object] = {
        "translatedText": _like(body.q, [answer.text for answer in answers]),
        **translators(answers),
    }
    if body.source.lower() == "auto":
        detections = [detected(answer.detection) for answer in answers if answer.detection is not None]
        fields["detectedLanguage"] = _like(body.q, detections)
    if body.alternatives:
        fields["alternatives"] = _like(body.q, [list(answer.alternatives) for answer in answers])
    if not all(answer.is_finished for answer in answers):
        fields["unfinished"] = _like(body.q, [not answer.is_finished for answer in answers])
    if any(answer.missing_terms for answer in answers):
        fields["missing_terms"] = _like(body.q, [missing_terms(answer) for answer in answers])
    if body.include:
        fields["details"] = [_details(body.include, answer) for answer in answers]
    return Response(to_json(fields, inf_nan_mode="null"), media_type=JSON)


def missing_terms(answer: Answer) -> list[dict[str, str]]:
    """Returns the terms of the glossary that a translation lacks."""
    return [{"source": term.source, "target": term.target} for term in answer.missing_terms]


def detected(detection: Detection) -> schemas.DetectedLanguage:
    """Returns a detection with its confidence in per cent."""
    return schemas.DetectedLanguage(
        language=detection.language, confidence=round(100 * detection.confidence, 1)
    )


def description(model: Model, settings: Settings) -> schemas.ModelDescription:
    """Returns the public description of a checkpoint, with the limits of a request to it."""
    card = model.card
    names = schemas.ModelLimits.model_fields.keys() & type(settings).model_fields.keys()
    sources, targets = map(list, card.sides) if card.sides else (None, None)
    return schemas.ModelDescription(
        name=card.name,
        version=model.version,
        checksum=model.checksum,
        pairs=[] if card.sides else list(card.pairs),
        sources=sources,
        targets=targets,
        device=model.device,
        precision=model.precision,
        parameters=model.parameters,
        limits=schemas.ModelLimits(
            max_source_tokens=card.max_source_length,
            max_target_tokens=card.max_target_length,
            **{name: getattr(settings, name) for name in names},
        ),
        loaded=model.loaded is not None,
        pinned=model.is_pinned,
        memory_bytes=model.memory_bytes,
        licence=card.licence or None,
        origin=card.origin or None,
    )


def _like(q: str | list[str], values: Sequence[object]) -> object:
    return list(values) if isinstance(q, list) else values[0]


def translators(answers: Sequence[Answer]) -> dict[str, object]:
    """Returns the fields `model`, `model_version` and `pivot`: one value each, or lists if texts differ.

    In a list, null stands for a text that came back unchanged. `pivot` is absent if no text has one.
    """
    used = [_checkpoints(answer.route) if answer.route else _UNCHANGED for answer in answers]
    known = set(used) - {_UNCHANGED}
    columns = map(list, zip(*used, strict=True)) if len(known) > 1 else next(iter(known), _UNCHANGED)
    fields: dict[str, object] = dict(zip(("model", "model_version", "pivot"), columns, strict=True))
    if not any(pivot for _, _, pivot in known):
        del fields["pivot"]
    return fields


def _checkpoints(route: Route) -> tuple[str | None, str | None, str | None]:
    return route.models, route.versions, route.pivot


def _details(include: Sequence[schemas.Detail], answer: Answer) -> dict[str, object]:
    best = [sentence.best for sentence in answer.sentences]
    fields: dict[str, object] = {
        "finished": [hypothesis.finished for hypothesis in best],
        "degenerate": [_degeneration(sentence.diagnosis) for sentence in answer.sentences],
    }
    if "scores" in include:
        fields["scores"] = [hypothesis.score for hypothesis in best]
    if "tokens" in include:
        fields["tokens"] = _tokens(answer)
    if "alignment" in include:
        fields["alignment"] = [hypothesis.alignment or () for hypothesis in best]
    return fields


def _degeneration(diagnosis: Diagnosis | None) -> schemas.Degeneration | None:
    if diagnosis is None:
        return None
    return schemas.Degeneration(kind=diagnosis.kind, retried=diagnosis.retried, kept=diagnosis.kept)


def _tokens(answer: Answer) -> list[schemas.TokenDetail]:
    """Returns the tokens of the last hop; after a pivot, its source is in the pivot language."""
    return [
        schemas.TokenDetail(
            source=sentence.tokenizer.source_pieces(sentence.request.source_ids),
            target=sentence.tokenizer.pieces(sentence.best.token_ids),
            log_probabilities=list(sentence.best.token_log_probabilities),
        )
        for sentence in answer.sentences
    ]
