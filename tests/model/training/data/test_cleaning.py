import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.training.config_sections import CleaningConfig
from model.training.data.cleaning import Cleaner, CleaningReport, FingerprintSet
from model.training.data.corpus import SentencePair

GOOD = SentencePair("The bridge is closed today.", "Le pont est fermé aujourd'hui.")
BAD = {
    "empty": SentencePair("The bridge is closed.", " \u200b\t"),
    "too_long": SentencePair("so " * 21, "si " * 21),
    "too_long without spaces": SentencePair("A" * 401, "A" * 401 + "."),
    "length_ratio": SentencePair(
        "Closed.", "Le pont est fermé, et il le sera encore demain et après-demain, hélas !"
    ),
    "wrong_script": SentencePair("The bridge is closed.", "Мост сегодня закрыт."),
    "copy": SentencePair("OK, thanks!", "ok,  Thanks!"),
    "duplicate": GOOD,
}
CONFIG = CleaningConfig(max_length_words=20)


def cleaned(pairs: list[SentencePair], config: CleaningConfig) -> tuple[list[SentencePair], CleaningReport]:
    report = CleaningReport()
    kept = list(Cleaner(config).clean(pairs, "en", "fr", report))
    return kept, report


@pytest.mark.parametrize("reason", BAD)
def test_bad_pair_is_dropped_and_counted(reason: str) -> None:
    kept, report = cleaned([GOOD, BAD[reason]], CONFIG)
    assert kept == [GOOD]
    assert report == CleaningReport(kept=1, dropped={reason.partition(" ")[0]: 1})


def test_each_check_can_be_turned_off() -> None:
    off = CleaningConfig(max_length_ratio=99.0, deduplicate=False, drop_copies=False, check_script=False)
    pairs = [GOOD, *(pair for reason, pair in BAD.items() if reason != "empty")]
    kept, report = cleaned(pairs, off)
    assert len(kept) == len(pairs)
    assert report.dropped == {}


def test_text_is_normalised_before_it_is_compared() -> None:
    decomposed = SentencePair("The bridge is\u00a0closed today. ", "Le pont est ferme\u0301 aujourd’hui.")
    assert cleaned([GOOD, decomposed], CONFIG) == ([GOOD], CleaningReport(kept=1, dropped={"duplicate": 1}))


def test_short_sentences_may_differ_more_in_length() -> None:
    pair = SentencePair("Hurry!", "Dépêche-toi un peu, voyons donc, allez !")
    assert cleaned([pair], CONFIG)[0] == [pair]


def test_same_source_with_another_translation_is_no_duplicate() -> None:
    other = SentencePair(GOOD.source, "Aujourd'hui, le pont est fermé.")
    assert cleaned([GOOD, other], CONFIG)[0] == [GOOD, other]


def test_duplicates_are_found_across_corpora_of_the_same_direction() -> None:
    cleaner, report = Cleaner(CONFIG), CleaningReport()
    assert list(cleaner.clean([GOOD], "en", "fr", report)) == [GOOD]
    assert list(cleaner.clean([GOOD], "en", "fr", report)) == []
    assert list(cleaner.clean([GOOD], "en", "oc", report)) == [GOOD]
    assert str(report) == "2 pairs kept; dropped: 1 duplicate"


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 9)), st.integers(1, 8))
def test_behaves_as_a_set(numbers: list[int], recent_limit: int) -> None:
    fingerprints = FingerprintSet(recent_limit=recent_limit)
    expected: set[int] = set()
    for number in numbers:
        assert fingerprints.add(number) is (number not in expected)
        expected.add(number)
        assert len(fingerprints) == len(expected)
