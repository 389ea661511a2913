"""Terms of a glossary in translations by the embedded checkpoint."""

import re

import pytest

from model.decode_request import MAX_PHRASES
from model.text.glossary import Glossary
from model.translation.document_translation import DocumentTranslation, with_alternatives
from model.translation.translator import Translator
from tests.embedded import EMBEDDED
from tests.model.decoding.arrivals import watch_rows
from tests.model.native_library import needs_native

TERMS = {
    "boiler": "chaudière",
    "invoice": "facture proforma",
    "umbrella": "ombrelle",
    "lawn mower": "tondeuse à gazon",
    "main hall": "grand salon",
    "ticket": "titre de transport",
    "Dragoman": "Dragoman",
    "wine": "vin rouge",
}
SENTENCES = [
    "The boiler in the kitchen is broken.",
    "Please send the invoice to our office. She left her umbrella on the train.",
    "My neighbour bought a new lawn mower yesterday.",
    "The meeting starts at nine in the main hall.",
    "WHERE CAN I BUY A TICKET?",
    "<b>Dragoman</b> printed the invoice, and the ticket.",
    "Where can I find the wine?",
    "There is none here.",
]


def test_the_terms_of_a_glossary_are_in_the_translations(translator: Translator) -> None:
    plain = translator.translate(SENTENCES, source="en", target="fr")
    bound = translator.translate(SENTENCES, source="en", target="fr", glossary=TERMS)
    for source, translation in zip(SENTENCES, bound, strict=True):
        found = {term for term in TERMS if term.lower() in source.lower()}
        assert {t.source for each in translation.sentences for t in each.sentence.terms} == found
        assert all(re.search(rf"\b{TERMS[term]}\b", translation, re.IGNORECASE) for term in found)
        assert translation.missing_terms == ()
    assert bound[-1] == plain[-1]
    assert sum(ours == theirs for ours, theirs in zip(bound, plain, strict=True)) == 1
    greedy = translator.card.options({"strategy": "greedy"})
    for translation in translator.translate(
        SENTENCES, source="en", target="fr", glossary=TERMS, options=greedy
    ):
        assert translation.missing_terms == ()


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("My dog and your dog play in the garden.", {"dog": "toutou"}),
        ("The boiler is old, so the boiler must be replaced.", {"boiler": "chaudière"}),
        ("The dog sees the cat, and the cat sees the dog.", {"dog": "toutou", "cat": "minou"}),
    ],
)
def test_a_term_is_in_the_translation_as_often_as_in_the_sentence(
    translator: Translator, text: str, entries: dict[str, str]
) -> None:
    translation = translator.translate(text, source="en", target="fr", glossary=entries)
    for term, target in entries.items():
        assert translation.lower().count(target) >= text.count(term)
    assert translation.missing_terms == ()


def test_alternatives_have_a_term_within_the_sentence_and_once(translator: Translator) -> None:
    sentences = [each for each in SENTENCES if re.search("boiler|hall|wine", each)]
    options = with_alternatives(translator.card.decoding, 3)
    for translation in translator.translate(
        sentences, source="en", target="fr", glossary=TERMS, options=options
    ):
        (term,) = translation.sentences[0].sentence.terms
        assert len(translation.alternatives) == 3
        for text in (translation, *translation.alternatives):
            assert all(text.lower().count(word) == 1 for word in term.target.split())
            assert not re.search(r"[.?!].*\w", text)


@needs_native
@pytest.mark.parametrize(("options", "most"), [({"strategy": "greedy"}, 3), ({"beam_size": 4}, 1.5)])
def test_terms_that_the_network_places_cost_few_rows(options: dict[str, object], most: float) -> None:
    translator = Translator.load(EMBEDDED, device="cpu")  # whose engine is watched
    counts = []
    for glossary in (None, Glossary(TERMS)):
        read = {"tokenizer": translator.tokenizer, "card": translator.card, "pair": ("en", "fr")}
        documents = [
            DocumentTranslation.read(
                text, field="q", options=translator.card.options(options), glossary=glossary, **read
            )
            for text in SENTENCES[:-1]
        ]
        rows = watch_rows(translator.engines[0])
        translator.engines[0].decode([r for each in documents for r in each.requests])
        counts.append(sum(rows))
    assert counts[0] < counts[1] < most * counts[0]


def test_terms_beyond_the_number_that_is_decoded_are_told_where_they_are_missing(
    translator: Translator,
) -> None:
    words = [f"zq{letter}" for letter in "abcdefghijklmnopqrstuv"]
    glossary = {word: f"xv{word}w" for word in words}
    translation = translator.translate(", ".join(words), source="en", target="fr", glossary=glossary)
    (sentence,) = translation.sentences
    assert len(sentence.request.phrases) <= MAX_PHRASES < len(words) == len(sentence.sentence.terms)
    absent = {word for word in words if glossary[word] not in translation.lower()}
    assert {term.source for term in translation.missing_terms} == absent
