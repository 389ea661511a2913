"""⑨ The fields of an answer of DeepL's API, made from translations."""

from collections.abc import Iterator, Sequence

from app.http.answers import missing_terms, translators
from app.http.deepl.schemas import DeepLTranslateRequest, DeepLTranslateResponse, ModelType
from app.translation.request import Answer
from model.text.languages import canonical_code


def translate_response(
    body: DeepLTranslateRequest, texts: Sequence[str], answers: Sequence[Answer]
) -> DeepLTranslateResponse:
    """Returns the answer to a request: one translation for each text."""
    pairs = zip(texts, answers, strict=True)
    translations = [dict(_fields(body, text, answer)) for text, answer in pairs]
    return DeepLTranslateResponse.model_validate({"translations": translations})


def _fields(body: DeepLTranslateRequest, text: str, answer: Answer) -> Iterator[tuple[str, object]]:
    yield "detected_source_language", _source(body, answer)
    yield "text", answer.text
    if body.show_billed_characters:
        yield "billed_characters", len(text)
    if body.model_type is not None:
        yield "model_type_used", _model_type(body.model_type)
    if body.context:
        yield "context_used", False
    yield from translators([answer]).items()
    if answer.missing_terms:
        yield "missing_terms", missing_terms(answer)


def _source(body: DeepLTranslateRequest, answer: Answer) -> str:
    language = answer.detection.language if answer.detection else canonical_code(body.source_lang or "")
    return language.upper()


def _model_type(wanted: ModelType) -> str:
    return "latency_optimized" if wanted == "latency_optimized" else "quality_optimized"
