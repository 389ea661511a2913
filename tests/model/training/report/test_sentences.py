import pytest

from model.training.report.translations import most_improved, most_worsened, sentence_histories, worst
from model.training.validation import TranslatedText

REFERENCES = ("the cat sleeps", "a dog barks", "birds sing here")
SOURCES = ("un", "deux", "trois")


def translated(*translations: str, sources: tuple[str, ...] = SOURCES) -> TranslatedText:
    return TranslatedText("fr", "en", sources, REFERENCES, translations)


BEFORE = translated("the cat eats", "a dog barks", "nothing")
AFTER = translated("the cat sleeps", "a frog", "birds sing")


def test_each_sentence_is_scored_now_and_before() -> None:
    first, second, _ = sentence_histories(BEFORE, AFTER)
    assert first.before is not None
    assert (first.before.text, first.after.text) == ("the cat eats", "the cat sleeps")
    assert (first.after.bleu, first.after.chrf) == pytest.approx((100, 100))
    assert first.gain == pytest.approx(100 - first.before.chrf)
    assert second.gain < 0


def test_the_worst_and_those_that_changed_most() -> None:
    histories = sentence_histories(BEFORE, AFTER)
    assert [each.source for each in worst(histories, 2)] == ["deux", "trois"]
    assert [each.source for each in most_improved(histories, 5)] == ["un", "trois"]
    assert [each.source for each in most_worsened(histories, 5)] == ["deux"]


def test_without_a_past_nothing_has_changed() -> None:
    histories = sentence_histories(None, AFTER)
    assert [each.before for each in histories] == [None, None, None]
    assert most_improved(histories, 5) == most_worsened(histories, 5) == []


def test_sentences_are_recognised_not_counted() -> None:
    earlier = translated("the cat eats", "a dog barks", "nothing", sources=("un", "other", "trois"))
    histories = sentence_histories(earlier, AFTER)
    assert [each.before.text if each.before else None for each in histories] == [
        "the cat eats",
        None,
        "nothing",
    ]
