"""Addresses are found, and stand in translations as they stood in sources."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.text.addresses import addresses, with_addresses


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Write to max@example.org, please.", ["max@example.org"]),
        ("(see https://example.org/a_b?c=d&e#f).", ["https://example.org/a_b?c=d&e#f"]),
        ("请访问https://www.example.cn/help，谢谢", ["https://www.example.cn/help"]),
        ("WWW.EXAMPLE.ORG or ftp://10.0.0.1:21/x", ["WWW.EXAMPLE.ORG", "ftp://10.0.0.1:21/x"]),
        ("a@b, user@host, @name, 3.5 @ 4 and www", []),
        ("", []),
    ],
)
def test_web_and_mail_addresses_are_found(text: str, found: list[str]) -> None:
    assert addresses(text) == found


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("https://example.org/impressum", "https://example.org/impresssum", "https://example.org/impressum"),
        ("An aide@exemple.fr.", "To help@exemple.fr.", "To aide@exemple.fr."),
        ("An jan@beispiel.de!", "To jan@bei game.de!", "To jan@beispiel.de!"),
        ("Mail: john.s@mail.com", "邮件是John.s@mail.com。", "邮件是john.s@mail.com。"),
        ("A ana@correo.es, hoy", "To ana@correo.es.es, today", "To ana@correo.es, today"),
        (
            "Not b@site.org but a@site.org, see (www.site.org).",
            "Nicht b@site.og, sondern a@site.org, siehe (www.sit.org).",
            "Nicht b@site.org, sondern a@site.org, siehe (www.site.org).",
        ),
        (
            "From xy1@site.org to xy2@site.org",
            "Von xy1@site.or nach xy2@site.or",
            "Von xy1@site.org nach xy2@site.org",
        ),
    ],
)
def test_what_resembles_an_address_of_the_source_becomes_it(
    source: str, translation: str, expected: str
) -> None:
    assert with_addresses(translation, source) == expected


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ("Hello there", "Bonjour @vous, voir www.site.fr"),
        ("Write to max@example.org", "Écris à max@example.org"),
        ("Write to max@example.org", "Écris à Max, s'il te plaît"),
        (" ".join(f"a{i}@site.org" for i in range(9)), "a1@site.og"),
    ],
)
def test_everything_else_stays(source: str, translation: str) -> None:
    assert with_addresses(translation, source) == translation


_words = st.lists(
    st.sampled_from(["a", "b.c", "x@site.org", "y@site.og", "www.site.org", "。", "(", ")."]), max_size=12
)


@given(source=_words, translation=_words)
def test_no_other_word_is_lost(source: list[str], translation: list[str]) -> None:
    plain = [word for word in translation if word in ("a", "。")]
    result = with_addresses(" ".join(translation), " ".join(source))
    assert [word for word in result.split() if word in ("a", "。")] == plain
    assert with_addresses(result, " ".join(source)) == result
