"""The route of a text from one language into another."""

import pytest

from app.translation.catalogue import Catalogue, Route
from model.checkpoint.card import Pair
from model.errors import InputError, UnsupportedLanguageError
from tests.app.double import DoubleBackend

Checkpoint = tuple[str, tuple[Pair, ...]]


def catalogue_of(*checkpoints: Checkpoint, pivots: bool = True) -> Catalogue:
    return Catalogue(DoubleBackend(*checkpoints).models(), pivots=pivots)


EUROPE: tuple[Checkpoint, ...] = (
    ("de-fr", (("de", "fr"),)),
    ("fr-es", (("fr", "es"), ("fr", "en"))),
    ("de-en", (("de", "en"), ("en", "de"))),
    ("en-es", (("en", "es"), ("en", "it"))),
)


def route(catalogue: Catalogue, source: str, target: str) -> Route:
    return catalogue.route((source, target), None)


def test_a_direct_route_uses_the_first_checkpoint_of_the_pair() -> None:
    catalogue = catalogue_of(*EUROPE, ("another", (("de", "fr"), ("de", "en"))))
    found = route(catalogue, "de", "fr")
    assert (found.models, found.versions, found.pivot) == ("de-fr", "1+cccccccc", None)


def test_english_is_the_preferred_pivot() -> None:
    found = route(catalogue_of(*EUROPE), "de", "es")
    assert (found.models, found.pivot) == ("de-en>en-es", "en")
    assert [hop.pair for hop in found.hops] == [("de", "en"), ("en", "es")]


def test_the_next_pivot_is_the_first_language_that_the_checkpoints_name() -> None:
    catalogue = catalogue_of(
        ("a", (("de", "nl"), ("de", "fr"))), ("b", (("fr", "es"),)), ("c", (("nl", "es"), ("en", "es")))
    )
    assert route(catalogue, "de", "es").pivot == "nl"


def test_one_checkpoint_can_be_both_hops() -> None:
    found = route(catalogue_of(("both", (("de", "en"), ("en", "fr")))), "de", "fr")
    assert (found.models, found.pivot) == ("both>both", "en")


def test_there_are_two_hops_at_most() -> None:
    catalogue = catalogue_of(("a", (("de", "en"),)), ("b", (("en", "fr"),)), ("c", (("fr", "es"),)))
    with pytest.raises(UnsupportedLanguageError, match="`target` must be one of en, fr"):
        route(catalogue, "de", "es")


def test_targets_list_direct_routes_first() -> None:
    catalogue = catalogue_of(*EUROPE)
    assert catalogue.targets("de") == ("fr", "en", "es", "it")
    assert catalogue.targets("de", "de-fr") == ("fr",)
    assert catalogue.targets("it") == ()


def test_a_named_checkpoint_is_used_without_a_pivot() -> None:
    with pytest.raises(UnsupportedLanguageError, match="`target` must be one of en"):
        catalogue_of(*EUROPE).route(("de", "it"), "de-en")
    with pytest.raises(InputError, match="`model` must be one of de-fr, fr-es, de-en, en-es"):
        catalogue_of(*EUROPE).route(("de", "it"), "other")


def test_many_languages_are_quick() -> None:
    codes = [f"{first}{second}" for first in "abcdefgh" for second in "abcdefghijklmnop"]
    pairs = tuple((source, target) for source in codes for target in codes if source != target)
    catalogue = catalogue_of(("all", pairs))
    assert len(catalogue.targets("aa")) == len(codes) - 1


def test_a_language_of_one_region_is_known_as_it_is_listed_and_without_it() -> None:
    catalogue = catalogue_of(("en-pt", (("en", "pt-BR"),)))
    assert {catalogue.language("target", code) for code in ("pt-BR", "PT-BR", "pt_br", "pt")} == {"pt-BR"}
    with pytest.raises(UnsupportedLanguageError):
        catalogue.language("target", "pt-PT")
