"""⑨ Translations become the answer's fields."""

from collections.abc import Sequence
from typing import Final, TypeVar

from fastapi.responses import Response
from pydantic import TypeAdapter

from app.api import schemas
from app.api.body import JSON
from app.backend import LoadedModel
from app.order import Answer
from model.passage import SentenceTranslation
from model.text.language import Detection

Content = TypeVar("Content")
Translations: Final = TypeAdapter(schemas.TranslateResponse)
Detections: Final = TypeAdapter(list[schemas.DetectedLanguage])


def answered(shape: TypeAdapter[Content], content: Content) -> Response:
    """An answer of status 200; fields that were not set are left out."""
    return Response(shape.dump_json(content, exclude_unset=True), media_type=JSON)


def translate_response(
    body: schemas.TranslateRequest, answers: Sequence[Answer]
) -> schemas.TranslateResponse:
    """The answer to a request: plain values for a plain `q`, lists for a list; only what was asked for."""
    fields: dict[str, object] = {
        "translatedText": _like(body.q, [answer.text for answer in answers]),
        **translators(answers),
    }
    detections = [detected(answer.detection) for answer in answers if answer.detection is not None]
    if detections:
        fields["detectedLanguage"] = _like(body.q, detections)
    if body.alternatives:
        fields["alternatives"] = _like(body.q, [list(answer.alternatives) for answer in answers])
    if not all(answer.is_finished for answer in answers):
        fields["unfinished"] = _like(body.q, [not answer.is_finished for answer in answers])
    if body.include:
        fields["details"] = [_details(body.include, answer) for answer in answers]
    return schemas.TranslateResponse.model_validate(fields)


def detected(detection: Detection) -> schemas.DetectedLanguage:
    """A detection, its confidence in per cent."""
    return schemas.DetectedLanguage(
        language=detection.language, confidence=round(100 * detection.confidence, 1)
    )


def description(model: LoadedModel) -> schemas.ModelDescription:
    """What users see of a checkpoint."""
    card = model.card
    return schemas.ModelDescription(
        name=card.name,
        version=model.version,
        checksum=model.checksum,
        pairs=list(card.pairs),
        device=model.device,
        precision=model.precision,
        parameters=model.parameters,
        limits=schemas.ModelLimits(
            max_source_tokens=card.max_source_length, max_target_tokens=card.max_target_length
        ),
    )


def _like(q: str | list[str], values: Sequence[object]) -> object:
    return list(values) if isinstance(q, list) else values[0]


def translators(answers: Sequence[Answer]) -> dict[str, object]:
    """Who translated: one name and version, or where texts differ a list, with null where nobody did."""
    marks = [(answer.model.card.name, answer.model.version) if answer.model else None for answer in answers]
    known = set(marks) - {None}
    if len(known) > 1:
        names, versions = zip(*((mark or (None, None)) for mark in marks), strict=True)
        return {"model": list(names), "model_version": list(versions)}
    name, version = next(iter(known), None) or (None, None)
    return {"model": name, "model_version": version}


def _details(include: Sequence[schemas.Detail], answer: Answer) -> schemas.Details:
    best = [sentence.hypotheses[0] for sentence in answer.sentences]
    fields: dict[str, object] = {"finished": [hypothesis.finished for hypothesis in best]}
    if "scores" in include:
        fields["scores"] = [hypothesis.score for hypothesis in best]
    if "tokens" in include:
        fields["tokens"] = [_tokens(answer.model, sentence) for sentence in answer.sentences if answer.model]
    if "alignment" in include:
        fields["alignment"] = [hypothesis.alignment or () for hypothesis in best]
    return schemas.Details.model_validate(fields)


def _tokens(model: LoadedModel, sentence: SentenceTranslation) -> schemas.TokenDetail:
    best = sentence.hypotheses[0]
    return schemas.TokenDetail(
        source=model.tokenizer.source_pieces(sentence.request.source_ids),
        target=model.tokenizer.pieces(best.token_ids),
        log_probabilities=list(best.token_log_probabilities),
    )
