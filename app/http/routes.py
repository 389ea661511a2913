"""① ⑨ The paths of the service: translation, detection, languages, models, probes and metrics."""

import time
from collections.abc import Sequence
from functools import partial

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.http import schemas
from app.http.answers import Detections, Translations, answered, description, detected, translate_response
from app.http.openapi import as_events, body_of, errors
from app.http.request import (
    ContextOf,
    admit,
    check_count,
    check_lengths,
    context_of,
    fields_of,
    seconds_allowed,
    translated,
    validate,
    while_connected,
)
from app.http.streaming import stream, wants_events
from app.lifecycle.context import Context
from app.settings import Settings
from app.translation.markup_syntax import HTML
from app.translation.request import Answer, TranslationRequest
from model.text.languages import Detection, language_name

router = APIRouter(tags=["Translation"])


@router.post(
    "/translate",
    summary="Translate texts",
    response_model=schemas.TranslateResponse,
    openapi_extra=body_of(schemas.TranslateRequest),
    responses=as_events() | errors(400, 401, 403, 413, 415, 422, 429, 500, 503, 504),
)
async def translate(request: Request) -> Response:
    """Translate one text or a list of them, all or none.

    White space between sentences comes back as it was; blank texts, and texts that are in the target
    language already, come back unchanged. Nothing is ever cut: what is over a limit is refused.

    Fields may also stand in the query, spelt as in a form, where the body is empty; there other programs may
    log them.

    With `Accept: text/event-stream` the translation comes as it grows, as Server-Sent Events.
    """
    context = context_of(request)
    sent, client = await admit(request, context, takes_query=True)
    check_count(sent.values, "q", context.settings.max_items)
    body = validate(schemas.TranslateRequest, sent.values, is_form=sent.is_form)
    texts = fields_of(body.q)
    check_lengths(texts, context.settings)
    order = _order(body, texts, client, context.settings)
    if wants_events(request):
        return await stream(request, partial(translated, context, order), partial(_answer, body))
    return _answer(body, await while_connected(request, translated(context, order)))


def _answer(body: schemas.TranslateRequest, answers: Sequence[Answer]) -> Response:
    return answered(Translations, translate_response(body, answers))


def _order(
    body: schemas.TranslateRequest, texts: Sequence[tuple[str, str]], client: str, settings: Settings
) -> TranslationRequest:
    decoding = body.decoding.model_dump(exclude_none=True)
    if "alignment" in body.include:
        decoding["return_alignment"] = True
    return TranslationRequest(
        texts=tuple(text for _, text in texts),
        fields=tuple(field for field, _ in texts),
        source=None if body.source.lower() == "auto" else body.source,
        target=body.target,
        deadline=time.monotonic() + seconds_allowed(body.timeout_ms, settings),
        client=client,
        markup=HTML if body.format == "html" else None,
        splitting="across_lines" if body.format == "html" else "sentences",
        decoding=decoding,
        alternatives=body.alternatives,
        model=body.model,
    )


@router.post(
    "/detect",
    summary="Detect the language of a text",
    response_model=list[schemas.DetectedLanguage],
    openapi_extra=body_of(schemas.DetectRequest),
    responses=errors(400, 401, 403, 413, 415, 422, 429, 500, 503, 504),
)
async def detect(request: Request) -> Response:
    """Languages that the text may be in, likeliest first.

    Fields may also stand in the query, spelt as in a form, where the body is empty.
    """
    context = context_of(request)
    sent, client = await admit(request, context, takes_query=True)
    body = validate(schemas.DetectRequest, sent.values, is_form=sent.is_form)
    check_lengths(fields_of(body.q), context.settings)
    found = await while_connected(request, _detected(context, body.q, client))
    return answered(Detections, [detected(language) for language in found])


async def _detected(context: Context, text: str, client: str) -> list[Detection]:
    deadline = time.monotonic() + seconds_allowed(None, context.settings)
    async with context.admission.turn(client, deadline, len(text)):
        return await context.service.detect(text, client, deadline)


@router.get("/languages", summary="List languages", responses=errors(500, 503))
async def languages(context: ContextOf) -> list[schemas.Language]:
    """Languages that can be translated, and into which others."""
    catalogue = context.service.catalogue
    return [
        schemas.Language(code=code, name=language_name(code), targets=list(catalogue.targets(code)))
        for code in catalogue.languages
    ]


@router.get("/models", summary="List loaded checkpoints", responses=errors(500, 503))
async def models(context: ContextOf) -> list[schemas.ModelDescription]:
    """Checkpoints that requests are sent to, the preferred one of a language pair first."""
    return [description(model, context.settings) for model in context.service.catalogue.models]


probes_router = APIRouter(tags=["Operation"])


@probes_router.get("/livez", summary="Is the process alive?", responses=errors(503))
async def livez(context: ContextOf) -> schemas.Status:
    """Restart the process when this is not answered, or with 503: an engine has work and makes no step."""
    context.watchdog.require_progress()
    return schemas.Status()


@probes_router.get("/readyz", summary="Is it ready for traffic?", responses=errors(503))
async def readyz(context: ContextOf) -> schemas.Status:
    """503 while the model loads, while an engine is stuck, and from the moment the process is told to end."""
    context.lifecycle.require_ready()
    context.watchdog.require_progress()
    return schemas.Status()


@probes_router.get("/health", summary="Is it ready? (LibreTranslate's name)", responses=errors(503))
async def health(context: ContextOf) -> schemas.Status:
    """The same as /readyz."""
    return await readyz(context)


@probes_router.get(
    "/metrics",
    summary="Prometheus metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(context: ContextOf) -> Response:
    """All metrics in Prometheus' text format."""
    return Response(context.metrics.exposition(), media_type="text/plain; version=0.0.4; charset=utf-8")
