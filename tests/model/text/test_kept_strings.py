"""Strings that a translation must repeat come back exactly once, whatever the network makes of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.text import kept_strings
from model.text.kept_strings import with_kept_strings, with_numbers
from model.text.normalisation import clean
from model.text.tags import kept_tag


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "Hello {name}, {0} of {{ user.total }} or ${TOTAL}.",
            ["{name}", "{0}", "{{ user.total }}", "${TOTAL}"],
        ),
        ("%s and %1$s, %d or %(count)d, 100% sure", ["100%", "%s", "%1$s", "%d", "%(count)d"]),
        ("{n, plural, one {# file} other {# files}} left", ["{n, plural, one {# file} other {# files}}"]),
        ("Click <b>here</b><br/> &amp; wait, 3 < 5 > 2", ["<b>", "</b><br/>", "&amp;"]),
        ("Run `make serve` now 👍🏽!", ["`make serve`", "👍🏽"]),
        ("Write to max@example.org, please.", ["max@example.org"]),
        ("(see https://example.org/a_b?c=d&e#f).", ["https://example.org/a_b?c=d&e#f"]),
        ("请访问https://www.example.cn/help，谢谢", ["https://www.example.cn/help"]),
        ("写信给a@b.com谢谢", ["a@b.com"]),
        ("ftp://10.0.0.1:21/x", ["ftp://10.0.0.1:21/x"]),
        ("IBAN DE89 3704 0044 0532 0130 00.", ["DE89 3704 0044 0532 0130 00"]),
        ("Call +33 6 12 34 56 78 on 24.12.2024", ["+33 6 12 34 56 78", "24.12.2024"]),
        ("3.5 kg, 16 GB, -40 °C at 100 km/h for $9.99", ["3.5 kg", "16 GB", "-40 °C", "100 km/h", "$9.99"]),
        ("a@b, user@host, @name, 3.5 @ 4, www, www..., http://..., 5 million, in 1999", []),
        ("", []),
    ],
)
def test_strings_to_keep_are_found_and_put_back(text: str, found: list[str]) -> None:
    read, kept = with_numbers(text)
    assert [string.text for string in kept] == found
    assert with_kept_strings(read, kept) == text


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("Click <b>here</b> now.", "Cliquez 217 ici 348 tout de suite.", "Cliquez <b>ici</b> tout de suite."),
        ("{a} of {b} files", "348 Dateien, davon 217", "{b} Dateien, davon {a}"),
        ("Hello {name}!", "Bonjour !", "Bonjour {name} !"),
        ("{name}, come here.", "Komm her.", "{name} Komm her."),
        ("Hello {name}!", "Bonjour 217 217 !", "Bonjour {name} !"),
        ("217 or {x}", "217 oder 348", "217 oder {x}"),
        ("It weighs 3.5 kg.", "Es wiegt 3,5 kg.", "Es wiegt 3.5 kg."),
        ("For $1,234.50 now", "Für 1.234,50 $ jetzt", "Für $1,234.50 jetzt"),
        ("Call 030 123 45 67.", "Ruf 0301234567 an.", "Ruf 030 123 45 67 an."),
        ("3.5 kg or 3.5 kg", "3,5 kg oder 3,5 kg", "3.5 kg oder 3.5 kg"),
        ("3.5 kg or 35 kg", "3,5 kg oder 35 kg", "3.5 kg oder 35 kg"),
        (
            "It weighs 3.5 kg.",
            "Es wiegt 3,5 kg, also 3.5 kg oder 3,5kg.",
            "Es wiegt 3.5 kg, also 3.5 kg oder 3.5 kg.",
        ),
        ("12 kg for 12 people", "12kg für 12 Menschen", "12 kg für 12 Menschen"),
        ("12 kg for all", "12 Kilo für alle", "12 kg Kilo für alle"),
        ("It is 5 km.", "Es sind fünf Kilometer.", "Es sind fünf Kilometer."),
    ],
)
def test_each_string_comes_back_once(source: str, translation: str, expected: str) -> None:
    _, kept = with_numbers(source)
    assert with_kept_strings(translation, kept) == expected


def test_an_element_that_is_not_translated_is_kept() -> None:
    read, kept = with_numbers(f"Run {kept_tag(1)} or x{kept_tag(2)}.")
    assert read == "Run 217 or x 348."
    assert with_kept_strings("Lancez x 348 ou 217.", kept) == f"Lancez x{kept_tag(2)} ou {kept_tag(1)}."


def test_strings_that_a_caller_names_are_kept() -> None:
    read, kept = with_numbers("Dragoman and DRAGOMAN II, not Dragomans", ["Dragoman", "Dragoman II"])
    assert [string.text for string in kept] == ["Dragoman", "DRAGOMAN II"]
    assert read.endswith(", not Dragomans")


@given(text=st.text(st.sampled_from("ab {}%$<>/`&;:@.,-+0123456789kg€#\U0001f600é你")), lost=st.booleans())
def test_any_text_is_read_and_put_back(text: str, lost: bool) -> None:
    text = clean(text)
    read, kept = with_numbers(text)
    if lost:
        translation = with_kept_strings("un deux", kept)
        assert all(translation.count(string.text) >= 1 for string in kept if string.number)
    else:
        assert with_kept_strings(read, kept).replace(" ", "") == text.replace(" ", "")


def test_a_text_may_hold_every_number_and_a_thousand_placeholders() -> None:
    text = " ".join(map(str, range(217, 900))) + " {x}" * 1000
    read, kept = with_numbers(text)
    assert len({string.number for string in kept if string.number}) == 1000
    assert with_kept_strings(read, kept) == text


@pytest.mark.parametrize(
    ("text", "keep", "found"),
    [
        ("我喜欢张伟和北京", ["张伟"], ["张伟"]),
        ("The MP40 guns in room AB12 will open soon", [], []),
        ("{name} is 2.17 m tall", [], ["2.17 m", "{name}"]),
        (
            "Put file_name.txt and README.md into $HOME :smile:",
            [],
            ["file_name.txt", "README.md", "$HOME", ":smile:"],
        ),
        ("It ends here.This is md, and 10:30: late", [], []),
        ("ISBN 978-3-16-148410-0", [], ["978-3-16-148410-0"]),
        (
            "🏴\U000e0067\U000e0062\U000e007f and 1\ufe0f\u20e3",
            [],
            ["🏴\U000e0067\U000e0062\U000e007f", "1\ufe0f\u20e3"],
        ),
    ],
)
def test_what_is_kept_has_a_number_of_its_own(text: str, keep: list[str], found: list[str]) -> None:
    read, kept = with_numbers(text, keep)
    assert [string.text for string in kept] == found
    assert "217" not in {string.number for string in kept if "2.17 m" in found}
    assert with_kept_strings(read, kept) == text


PARTS = [
    "a",
    " ",
    "1",
    ".",
    ":",
    "/",
    "w",
    "W",
    "www.",
    "://",
    "@",
    "{",
    "}",
    "%d",
    "<b>",
    "&amp;",
    "`",
    "€",
    "🙂",
]
PARTS += ["_", "$", "-", ".md", "\u20e3", "٣", kept_tag(1), "é"]


@given(text=st.lists(st.sampled_from(PARTS) | st.characters()).map("".join))
def test_the_quick_look_misses_no_string_to_keep(text: str) -> None:
    assert kept_strings._may_hold_strings(text) or kept_strings._KEPT.search(text) is None
