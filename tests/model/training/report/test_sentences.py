import pytest

from model.training.report.sentences import remarkable, score_by_length, sentence_histories
from model.training.validation import TranslatedText

REFERENCES = ("the cat sleeps", "a dog barks", "birds sing here")
SOURCES = ("un", "deux", "trois")


def translated(*translations: str, sources: tuple[str, ...] = SOURCES) -> TranslatedText:
    return TranslatedText("fr", "en", sources, REFERENCES, translations)


BEFORE = translated("the cat eats", "a dog barks", "nothing")
AFTER = translated("the cat sleeps", "a frog", "birds sing")


def test_each_sentence_is_scored_now_and_before() -> None:
    first, second, _ = sentence_histories(BEFORE, AFTER)
    assert (first.before, first.after) == ("the cat eats", "the cat sleeps")
    assert first.chrf == pytest.approx(100)
    assert 0 < first.gain < 100
    assert second.gain < 0


def test_the_worst_and_those_that_changed_most() -> None:
    found = remarkable(sentence_histories(BEFORE, AFTER), 2)
    assert {kind: [each.source for each in histories] for kind, histories in found.items()} == {
        "Worst": ["deux", "trois"],
        "Most improved": ["un", "trois"],
        "Worsened": ["deux"],
    }


def test_sentences_are_recognised_not_counted() -> None:
    earlier = translated("the cat eats", "a dog barks", "nothing", sources=("un", "other", "trois"))
    histories = sentence_histories(earlier, AFTER)
    assert [each.before for each in histories] == ["the cat eats", None, "nothing"]


SHORT, LONG = "one two three", " ".join(map(str, range(60)))


def text(*rows: tuple[str, str, str], target: str = "fr") -> TranslatedText:
    sources, references, translations = zip(*rows, strict=True)
    return TranslatedText("en", target, sources, references, translations)


def test_sentences_are_scored_with_those_of_their_length() -> None:
    right, wrong = ("a b c d e f", "a b c d e f"), ("a b c d e f", "u v w x y z")
    short, middle, long = score_by_length(text((SHORT, *right), (LONG, *wrong), (SHORT + " four", *right)))
    assert [str(bucket) for bucket in (short, middle, long)] == ["1–3", "4–5", "over 50"]
    assert [bucket.count for bucket in (short, middle, long)] == [1, 1, 1]
    assert [short.scores.bleu, long.scores.bleu] == pytest.approx([100, 0], abs=1)


def test_characters_are_words_where_there_are_no_spaces() -> None:
    (bucket,) = score_by_length(text(("我们今天去学校", "we go", "we go")))
    assert str(bucket) == "6–8"
