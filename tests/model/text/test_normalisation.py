"""Normalisation of sentences, and replacements for characters that a vocabulary lacks."""

import string
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.text.normalisation import (
    INVISIBLE,
    clean,
    nfkc_fallback,
    no_space_after_marks,
    separate_punctuation,
    space_after_marks,
)
from tests.model.text.processor_time import at_most

any_text = st.text(st.characters())  # lone surrogates included


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("Plain text, as it is.", "Plain text, as it is."),
        ("e\u0301te\u0301", "été"),
        ("Où\u202fest\xa0la\u3000gare\u2009?", "Où est la gare ?"),
        ("a\tb\r\nc\u2028d", "a b  c d"),
        ("nul\x00 bell\x07 esc\x1b del\x7f c1\x9f", "nul bell esc del c1"),
        ("\ufeffbyte order\u200b mark\u2060", "byte order mark"),
        ("soft\xadhyphen \u202eoverride\u202c", "softhyphen override"),
        ("l’eau, don’t, м’який", "l'eau, don't, м'який"),
        ("‘quoted’ and 他说‘好’吧", "‘quoted’ and 他说‘好’吧"),
        ("ｆｕｌｌ，“width”…  ½", "ｆｕｌｌ，“width”…  ½"),
        ("👩\u200d🔬 ❤\ufe0f می\u200cخواهم", "👩\u200d🔬 ❤\ufe0f می\u200cخواهم"),
        ("half \ud800 a pair", "half \ufffd a pair"),
    ],
)
def test_what_the_network_sees(text: str, expected: str) -> None:
    assert clean(text) == expected


@given(any_text)
def test_clean_text_stays_as_it_is(text: str) -> None:
    assert clean(clean(text)) == clean(text)


@given(any_text)
def test_clean_text_is_composed_encodable_and_without_controls(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode()
    assert not any(unicodedata.category(character) == "Cc" for character in cleaned)
    assert not set(cleaned) & (set(INVISIBLE) - {" "})
    assert unicodedata.is_normalized("NFC", cleaned)


@given(st.text(st.sampled_from("aéЖ語 ’\u0301\u0316\xa0\u200b\U0001f600"), min_size=20))
def test_short_cuts_do_not_show(text: str) -> None:
    needs_every_step = "\ud800 l’e" + "\u0301" * 40
    assert clean(text + needs_every_step) == clean(text) + clean(needs_every_step)


@given(st.text("".join(chr(code) for code in range(0x20, 0x7F))))
def test_printable_ascii_is_untouched(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize(
    "unit", ["\u0301\u0316", "\u0f73", "e\u0301\u0316", "\u200b", "x’", "\ud800", "\xa0"]
)
def test_hostile_text_takes_linear_time(unit: str) -> None:
    clean("é")  # builds the table of marks
    with at_most(seconds=2):  # sorting 200,000 marks would take minutes
        clean(unit * (200_000 // len(unit)))


def test_a_run_of_marks_longer_than_any_language_writes_is_left_in_its_order() -> None:
    zalgo = "é" + "\u0301\u0316" * 40
    assert clean(f"e\u0301 {zalgo} e\u0301") == f"é {zalgo} é"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("go.", "go ."),
        ("he's calm.", "he's calm ."),
        ("va !", "va !"),
        ("wait, what?!", "wait , what ? !"),
        (".", "."),
        ("", ""),
        ("3.14", "3 .14"),
    ],
)
def test_each_mark_gets_a_space_before_it(text: str, expected: str) -> None:
    assert separate_punctuation(text) == expected


@pytest.mark.parametrize(
    ("text", "spaced"),
    [
        ("Milk (two litres) [fresh], {cold}.", "Milk ( two litres) [ fresh], { cold}."),
        ("{cold}", "{ cold}"),
        ('("Two") "(two)"', '(" Two") "( two)"'),
        ("_(two)_ [\"two\"] {'two'}", "_( two)_ [\" two\"] {' two'}"),
        ("He said \"good morning\" and 'bye'.", "He said \" good morning\" and ' bye'."),
        ("“Two?” „Ja!“ ‘yes’ ‚nein‘", "“ Two?” „ Ja!“ ‘ yes’ ‚ nein‘"),
        ("\"I like 'cats'\" and \"'dogs'\" too", "\" I like ' cats'\" and \"' dogs'\" too"),
        ("„Er sagte ‚ja‘“ und", "„ Er sagte ‚ ja‘“ und"),
        ("yes/no, a/b/c, km/h", "yes/ no, a/ b/ c, km/ h"),
        ("late—too late, Paris–Rome", "late— too late, Paris– Rome"),
    ],
)
def test_words_behind_marks_get_a_space_which_is_removed_again(text: str, spaced: str) -> None:
    assert space_after_marks(text) == spaced
    assert space_after_marks(spaced) == spaced
    assert no_space_after_marks(spaced) == text


@pytest.mark.parametrize(
    "text",
    [
        *(
            "f(x), word(s)",
            "(12 apples)",
            "24/7",
            "60/hour",
            "1–2",
            "It's the dogs' bowl.",
            'a 5" nail',
            "Ja!“ Er",
        ),
        *("（two）", "(二升)", "“好”", "yes / no", 'the name "" is empty', "the ''two'' words"),
        *("- two", "• two", "«Dos» « deux »", "well-known"),
    ],
)
def test_other_words_and_marks_stay_as_they_are(text: str) -> None:
    assert space_after_marks(text) == text
    assert no_space_after_marks(text) == text


def test_spaces_behind_marks_are_removed_from_scripts_without_spaces_too() -> None:
    text = "( 狗）在[ 早上] 他/ 她—谁；— 他 yes/ 是"
    assert no_space_after_marks(text) == "(狗）在[早上] 他/她—谁；— 他 yes/是"


@given(st.text("ab 1二.()[]{}\"'“”„‘‚/—–«»", max_size=30))
def test_spaces_behind_marks_are_the_only_ones_that_come_and_go(text: str) -> None:
    without = no_space_after_marks(text)
    assert no_space_after_marks(space_after_marks(without)) == without
    assert space_after_marks(without).replace(" ", "") == text.replace(" ", "")


KNOWN = frozenset(string.ascii_letters + string.digits + string.punctuation + " éß的。")


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a ﬁne ﬂower", "a fine flower"),
        ("ｈｅｌｌｏ，", "hello,"),
        ("½ cup", "1/2 cup"),
        ("1½ cups, 2 ¾", "1 1/2 cups, 2 3/4"),
        ("wait…", "wait..."),
        ("№ 5 ㎏ Ⅳ", "No 5 kg IV"),
        ("ﬀ的。é", "ff的。é"),
    ],
)
def test_what_the_vocabulary_lacks_is_spelt_out(text: str, plain: str) -> None:
    assert nfkc_fallback(text, KNOWN) == plain


@pytest.mark.parametrize("text", ["plain", "café 的。", "10² H₂O", "ж 🙂 ά", "℃", ""])
def test_what_has_no_known_spelling_or_needs_none_stays(text: str) -> None:
    assert nfkc_fallback(text, KNOWN) == text


@pytest.mark.parametrize(
    ("text", "known", "plain"),
    [("well\u2011known", "-", "well-known"), ("1½ …", "½…", "1½ …"), ("1½ ﬁ", "½", "1½ fi")],
)
def test_what_the_vocabulary_has_stays_as_it_is(text: str, known: str, plain: str) -> None:
    assert nfkc_fallback(text, KNOWN | set(known)) == plain
