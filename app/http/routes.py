"""① ⑨ The paths of the service: translation, detection, languages, models, probes and metrics."""

import dataclasses
from functools import partial
from typing import Final

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from app.http import schemas
from app.http.answers import Detections, answered, description, detected, translate_response
from app.http.body import field_of, preferences
from app.http.deepl.glossaries import stored_glossary
from app.http.openapi import Operation
from app.http.request import Received, context_of, receive
from app.http.streaming import answer, while_connected
from app.lifecycle.context import Context
from app.translation.glossary_store import StoredGlossary
from app.translation.request import TranslationRequest
from model.text.formats.markup_syntax import HTML
from model.text.glossary import Glossary, checked_entries
from model.text.languages import language_name

_LANGUAGES: Final = TypeAdapter(list[schemas.Language])
_MODELS: Final = TypeAdapter(list[schemas.ModelDescription])
_STATUS: Final = TypeAdapter(schemas.Status)

_TRANSLATION: Final = "Translation"
_PROBES: Final = "Operation"


async def translate(request: Request) -> Response:
    """Translate one text or a list of them, all or none.

    White space between sentences comes back as it was; blank texts, and texts that are in the target
    language already, come back unchanged. Nothing is ever cut: what is over a limit is refused.

    Fields may also stand in the query, spelt as in a form, where the body is empty; there other programs may
    log them.

    With `Accept: text/event-stream` the translation comes as it grows, as Server-Sent Events.
    """
    received = await receive(request, schemas.TranslateRequest, takes_query=True)
    asked = _translation_request(received, _languages_read(request))
    if received.body.glossary is not None:
        asked = dataclasses.replace(asked, glossary=await _glossary(context_of(request), received))
    work = partial(context_of(request).service.translate, asked)
    return await answer(request, work, partial(translate_response, received.body))


def _languages_read(request: Request) -> tuple[str, ...]:
    """Returns the languages that the user of a client reads, as its browser says."""
    return preferences(field_of(request, b"accept-language"))


def _translation_request(
    received: Received[schemas.TranslateRequest], reader: tuple[str, ...]
) -> TranslationRequest:
    body = received.body
    decoding = body.decoding.model_dump(exclude_none=True) if "decoding" in body.model_fields_set else {}
    if "alignment" in body.include:
        decoding["return_alignment"] = True
    return TranslationRequest(
        texts=received.texts,
        fields=received.fields,
        source=None if body.source.lower() == "auto" else body.source,
        target=body.target,
        deadline=received.deadline,
        client=received.client,
        markup=HTML if body.format == "html" else None,
        splitting="across_lines" if body.format == "html" else "sentences",
        decoding=decoding,
        alternatives=body.alternatives,
        model=body.model,
        keep=tuple(body.keep),
        reader=reader,
    )


async def _glossary(
    context: Context, received: Received[schemas.TranslateRequest]
) -> Glossary | StoredGlossary:
    """Returns the glossary that a request holds or names.

    Raises:
        InputError: If a term has two translations.
        RequestError: If there is no glossary of this name.
    """
    given = received.body.glossary
    if isinstance(given, list):
        return Glossary(checked_entries([(entry.source, entry.target) for entry in given], "glossary"))
    return await stored_glossary(context, received.client, given or "", "glossary")


async def detect(request: Request) -> Response:
    """Languages that the text may be in, likeliest first.

    Fields may also stand in the query, spelt as in a form, where the body is empty.
    """
    received = await receive(request, schemas.DetectRequest, takes_query=True)
    service = context_of(request).service
    reader = _languages_read(request)
    work = service.detect(received.body.q, received.client, received.deadline, reader)
    found = await while_connected(request, work)
    return answered(Detections, [detected(language) for language in found])


async def languages(request: Request) -> Response:
    """Languages that can be translated, and into which others."""
    catalogue = context_of(request).service.catalogue
    listed = [
        schemas.Language(code=code, name=language_name(code), targets=list(catalogue.targets(code)))
        for code in catalogue.languages
    ]
    return answered(_LANGUAGES, listed)


async def models(request: Request) -> Response:
    """Checkpoints that requests are sent to, the preferred one of a language pair first."""
    context = context_of(request)
    listed = [description(model, context.settings) for model in context.service.catalogue.models]
    return answered(_MODELS, listed)


async def livez(request: Request) -> Response:
    """Restart the process when this is not answered, or with 503: an engine has work and makes no step."""
    context_of(request).watchdog.require_progress()
    graphs = context_of(request).metrics.graphs()
    detail = {"cuda_graphs": dict(graphs)} if graphs else {}
    return answered(_STATUS, schemas.Status(status="ok", **detail))


async def readyz(request: Request) -> Response:
    """503 while the model loads, while an engine is stuck, and from the moment the process is told to end."""
    context_of(request).lifecycle.require_ready()
    return await livez(request)


async def health(request: Request) -> Response:
    """The same as /readyz."""
    return await readyz(request)


async def metrics(request: Request) -> Response:
    """All metrics in Prometheus' text format."""
    content = context_of(request).metrics.exposition()
    return Response(content, media_type="text/plain; version=0.0.4; charset=utf-8")


OPERATIONS: Final = (
    Operation(
        "/translate",
        translate,
        "POST",
        tag=_TRANSLATION,
        summary="Translate texts",
        body=schemas.TranslateRequest,
        answer=schemas.TranslateResponse,
        errors=(400, 401, 403, 404, 413, 415, 422, 429, 500, 503, 504),
        can_stream=True,
    ),
    Operation(
        "/detect",
        detect,
        "POST",
        tag=_TRANSLATION,
        summary="Detect the language of a text",
        body=schemas.DetectRequest,
        answer=list[schemas.DetectedLanguage],
        errors=(400, 401, 403, 413, 415, 422, 429, 500, 503, 504),
    ),
    Operation(
        "/languages",
        languages,
        "GET",
        tag=_TRANSLATION,
        summary="List languages",
        answer=list[schemas.Language],
        errors=(500, 503),
    ),
    Operation(
        "/models",
        models,
        "GET",
        tag=_TRANSLATION,
        summary="List loaded checkpoints",
        answer=list[schemas.ModelDescription],
        errors=(500, 503),
    ),
)
PROBES: Final = (
    *(
        Operation(path, endpoint, "GET", tag=_PROBES, summary=summary, answer=schemas.Status, errors=(503,))
        for path, endpoint, summary in (
            ("/livez", livez, "Is the process alive?"),
            ("/readyz", readyz, "Is it ready for traffic?"),
            ("/health", health, "Is it ready? (LibreTranslate's name)"),
        )
    ),
    Operation("/metrics", metrics, "GET", tag=_PROBES, summary="Prometheus metrics"),
)
