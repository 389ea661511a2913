"""⑨ The languages of the catalogue under DeepL's codes."""

from collections.abc import Iterator

from app.http.deepl.schemas import DeepLLanguage
from app.translation.catalogue import Catalogue
from model.text.languages import language_name

# DeepL's clients refuse plain EN and PT as targets; here both variants mean the language itself.
_VARIANTS = {
    "en": {"EN-GB": "English (British)", "EN-US": "English (American)"},
    "pt": {"PT-BR": "Portuguese (Brazilian)", "PT-PT": "Portuguese (European)"},
}


def source_languages(catalogue: Catalogue) -> list[DeepLLanguage]:
    """Returns the source languages."""
    return [DeepLLanguage(language=code.upper(), name=language_name(code)) for code in catalogue.sources]


def target_languages(catalogue: Catalogue) -> list[DeepLLanguage]:
    """Returns the target languages."""
    return [
        DeepLLanguage(language=code, name=name, supports_formality=False)
        for code, name in _target_codes(catalogue)
    ]


def _target_codes(catalogue: Catalogue) -> Iterator[tuple[str, str]]:
    targets = {target for source in catalogue.sources for target in catalogue.targets(source)}
    for code in filter(targets.__contains__, catalogue.languages):
        yield from _VARIANTS.get(code, {code.upper(): language_name(code)}).items()
