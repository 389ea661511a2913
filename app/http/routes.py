"""① ⑨ The paths of the service: translation, detection, languages, models, probes, metrics and pages."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from pydantic_core import to_json
from starlette import routing
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from app.backend import Model
from app.http import schemas
from app.http.body import JSON, header_of, preferences
from app.http.deepl.glossaries import stored_glossary
from app.http.openapi import Operation
from app.http.receiving import Received, context_of, receive
from app.http.streaming import answer, while_connected
from app.lifecycle.context import Context
from app.settings import Settings
from app.translation.glossary_store import StoredGlossary
from app.translation.requests import Answer, TranslationRequest
from model.text.detection import Detection
from model.text.formats.markup_syntax import HTML
from model.text.glossary import Glossary, checked_entries
from model.text.languages import language_name
from model.translation.result import Diagnosis

# The groups of paths in the OpenAPI document.
_TRANSLATION_TAG: Final = "Translation"
_PROBE_TAG: Final = "Operation"
_WEB: Final = Path(__file__).parents[1] / "web"
_PAGE_HEADERS: Final = {
    # After an upgrade, a cached old script must not run in the new page.
    "Cache-Control": "no-cache",
    # Nothing inline and nothing from other hosts, so that a translation that is markup does no harm.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    # For browsers without `frame-ancestors`.
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


async def translate(request: Request) -> Response:
    """Translate one text or a list of them, all or none.

    White space between sentences comes back as it was; blank texts, and texts that are in the target
    language already, come back unchanged. Nothing is ever cut: what is over a limit is refused.

    Fields may also stand in the query, spelt as in a form, where the body is empty; there other programs may
    log them.

    With `Accept: text/event-stream` the translation comes as it grows, as Server-Sent Events.
    """
    received = await receive(request, schemas.TranslateRequest, takes_query=True)
    context = context_of(request)
    glossary = None if received.body.glossary is None else await _glossary(context, received)
    asked = _translation_request(received, _languages_read(request), glossary)
    work = partial(context.service.translate, asked)
    return await answer(request, work, partial(translate_response, received.body))


def _languages_read(request: Request) -> tuple[str, ...]:
    """Returns the languages that the user of a client reads, as its browser says."""
    return preferences(header_of(request.scope, b"accept-language"))


def _translation_request(
    received: Received[schemas.TranslateRequest],
    reader: tuple[str, ...],
    glossary: Glossary | StoredGlossary | None,
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
        glossary=glossary,
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


async def detect(request: Request) -> list[schemas.DetectedLanguage]:
    """Languages that the text may be in, likeliest first.

    Fields may also stand in the query, spelt as in a form, where the body is empty.
    """
    received = await receive(request, schemas.DetectRequest, takes_query=True)
    service = context_of(request).service
    reader = _languages_read(request)
    work = service.detect(received.body.q, received.client, received.deadline, reader)
    found = await while_connected(request, work)
    return [detected(language) for language in found]


async def languages(request: Request) -> list[schemas.Language]:
    """Languages that can be translated, and into which others."""
    catalogue = context_of(request).service.catalogue
    return [
        schemas.Language(code=code, name=language_name(code), targets=list(catalogue.targets(code)))
        for code in catalogue.languages
    ]


async def models(request: Request) -> list[schemas.ModelDescription]:
    """Checkpoints that requests are sent to, the preferred one of a language pair first."""
    context = context_of(request)
    return [description(model, context.settings) for model in context.service.catalogue.models]


async def livez(request: Request) -> schemas.Status:
    """Restart the process when this is not answered, or with 503: an engine has work and makes no step."""
    context_of(request).watchdog.require_progress()
    graphs = context_of(request).metrics.graphs()
    detail = {"cuda_graphs": dict(graphs)} if graphs else {}
    return schemas.Status(status="ok", **detail)


async def readyz(request: Request) -> schemas.Status:
    """503 while the model loads, while an engine is stuck, and from the moment the process is told to end."""
    context_of(request).lifecycle.require_ready()
    return await livez(request)


async def health(request: Request) -> schemas.Status:
    """The same as /readyz."""
    return await readyz(request)


async def metrics(request: Request) -> Response:
    """All metrics in Prometheus' text format."""
    content = context_of(request).metrics.exposition()
    return Response(content, media_type="text/plain; version=0.0.4; charset=utf-8")


def translate_response(body: schemas.TranslateRequest, answers: Sequence[Answer]) -> Response:
    """Returns the answer with the fields that a request asks for: lists for a list of texts, else values.

    Its fields are those of TranslateResponse, which a test checks: a check of each answer costs more than it.
    """
    fields: dict[str, object] = {
        "translatedText": _in_shape_of(body.q, [answer.text for answer in answers]),
        **checkpoint_fields(answers),
    }
    if body.source.lower() == "auto":
        detections = [detected(answer.detection) for answer in answers if answer.detection is not None]
        fields["detectedLanguage"] = _in_shape_of(body.q, detections)
    if body.alternatives:
        fields["alternatives"] = _in_shape_of(body.q, [list(answer.alternatives) for answer in answers])
    if not all(answer.is_finished for answer in answers):
        fields["unfinished"] = _in_shape_of(body.q, [not answer.is_finished for answer in answers])
    if any(answer.missing_terms for answer in answers):
        fields["missing_terms"] = _in_shape_of(body.q, [missing_terms(answer) for answer in answers])
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


def _in_shape_of(q: str | list[str], values: Sequence[object]) -> object:
    return list(values) if isinstance(q, list) else values[0]


def checkpoint_fields(answers: Sequence[Answer]) -> dict[str, object]:
    """Returns the fields `model`, `model_version` and `pivot`: one value each, or lists if texts differ.

    In a list, null stands for a text that came back unchanged. `pivot` is absent if no text has one.
    """
    unchanged = (None, None, None)
    routes = [answer.route for answer in answers]
    used = [(each.models, each.versions, each.pivot) if each else unchanged for each in routes]
    known = set(used) - {unchanged}
    columns = map(list, zip(*used, strict=True)) if len(known) > 1 else next(iter(known), unchanged)
    fields: dict[str, object] = dict(zip(("model", "model_version", "pivot"), columns, strict=True))
    if not any(pivot for _, _, pivot in known):
        del fields["pivot"]
    return fields


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


async def page(_request: Request) -> FileResponse:
    """The web page."""
    return FileResponse(_WEB / "page.html", headers=_PAGE_HEADERS)


async def docs(_request: Request) -> FileResponse:
    """The documentation in Swagger UI."""
    return FileResponse(_WEB / "docs.html", headers=_PAGE_HEADERS)


class _Assets(StaticFiles):
    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        # All files get them: a page also has a path by the name of its file.
        response.headers.update(_PAGE_HEADERS)
        return response


OPERATIONS: Final = (
    Operation(
        "/translate",
        translate,
        "POST",
        tag=_TRANSLATION_TAG,
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
        tag=_TRANSLATION_TAG,
        summary="Detect the language of a text",
        body=schemas.DetectRequest,
        answer=list[schemas.DetectedLanguage],
        errors=(400, 401, 403, 413, 415, 422, 429, 500, 503, 504),
    ),
    Operation(
        "/languages",
        languages,
        "GET",
        tag=_TRANSLATION_TAG,
        summary="List languages",
        answer=list[schemas.Language],
        errors=(500, 503),
    ),
    Operation(
        "/models",
        models,
        "GET",
        tag=_TRANSLATION_TAG,
        summary="List loaded checkpoints",
        answer=list[schemas.ModelDescription],
        errors=(500, 503),
    ),
)
PROBES: Final = (
    *(
        Operation(
            path, endpoint, "GET", tag=_PROBE_TAG, summary=summary, answer=schemas.Status, errors=(503,)
        )
        for path, endpoint, summary in (
            ("/livez", livez, "Is the process alive?"),
            ("/readyz", readyz, "Is it ready for traffic?"),
            ("/health", health, "Is it ready? (LibreTranslate's name)"),
        )
    ),
    Operation("/metrics", metrics, "GET", tag=_PROBE_TAG, summary="Prometheus metrics", answer="text/plain"),
)
PAGES: Final = (
    routing.Route("/", page),
    routing.Route("/docs", docs),
    routing.Mount("/web", _Assets(directory=_WEB), name="web"),
    routing.Mount("/swagger", _Assets(packages=[("fastapi_swagger", "resources")]), name="swagger"),
)
