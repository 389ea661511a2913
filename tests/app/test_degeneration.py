import pytest

from app.degeneration import degeneration
from model.passage import SentenceTranslation
from model.request import DecodeOptions, DecodeRequest, Hypothesis


@pytest.mark.parametrize(
    ("ids", "text", "finished", "kind"),
    [
        ((5, 6, 7), "a b c", True, None),
        ((5, 6, 7), "a b c", False, "unfinished"),
        ((), "", True, "empty"),
        ((5,), " ", True, "empty"),
        ((9, 5, 5, 5, 5), "x a a a a", True, "loop"),
        ((5, 6, 5, 6, 5, 6, 5, 6), "a b a b a b a b", True, "loop"),
        ((5, 5, 5), "ha ha ha", True, None),
        ((5, 5, 5, 5, 6), "a a a a b", True, None),
    ],
)
def test_what_looks_broken(ids: tuple[int, ...], text: str, finished: bool, kind: str | None) -> None:
    hypothesis = Hypothesis(ids, -1.0, -1.0, (), finished)
    request = DecodeRequest((5, 1), DecodeOptions())
    assert degeneration(SentenceTranslation("source", request, (hypothesis,), text)) == kind
