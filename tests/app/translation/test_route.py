"""What a way from one language into another tells of itself."""

import dataclasses

from app.translation.catalogue import Hop, Route
from tests.app.double import DoubleBackend


def test_it_names_its_checkpoints_their_weights_and_the_language_between() -> None:
    first, second = DoubleBackend(("a", (("de", "en"),)), ("b", (("en", "fr"),))).models()
    second = dataclasses.replace(second, checksum="d" * 64)
    way = Route((Hop(first, ("de", "en")), Hop(second, ("en", "fr"))))
    assert (way.models, way.versions, way.pivot) == ("a>b", "1+cccccccc>1+dddddddd", "en")


def test_a_direct_one_has_none_between() -> None:
    (model,) = DoubleBackend().models()
    way = Route((Hop(model, ("en", "fr")),))
    assert (way.models, way.versions, way.pivot) == ("tiny", "1+cccccccc", None)
