"""Addresses are found, and stand in translations as they stood in sources."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.text.addresses import addresses, with_addresses
from model.text.normalisation import clean


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Write to max@example.org, please.", ["max@example.org"]),
        ("(see https://example.org/a_b?c=d&e#f).", ["https://example.org/a_b?c=d&e#f"]),
        (
            "(https://example.org/Foo_(bar)) [www.example.org/a[1]]",
            ["https://example.org/Foo_(bar)", "www.example.org/a[1]"],
        ),
        ("请访问https://www.example.cn/help，谢谢", ["https://www.example.cn/help"]),
        ("写信给a@b.com谢谢", ["a@b.com"]),
        ("WWW.EXAMPLE.ORG", ["WWW.EXAMPLE.ORG"]),
        ("ftp://10.0.0.1:21/x", ["ftp://10.0.0.1:21/x"]),
        ("a@b, user@host, @name, 3.5 @ 4, www, www..., http://...", []),
        ("https://de.wikipedia.org/wiki/Köln, a@müller.de", []),
        ("www." + "a" * 300, []),
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
        ("http://127.0.0.1:80/a", "http://127.0.1:80/a", "http://127.0.0.1:80/a"),
        ("[site](https://example.com).", "[site](https://exmple.com).", "[site](https://example.com)."),
        ("Anna <anna@example.com>", "Anna <anna@exmple.com>", "Anna <anna@example.com>"),
        ("URL: https://example.com", "URL:https://exmple.com", "URL:https://example.com"),
        ("to: anna@example.com", "an:anna@exmple.com", "an:anna@example.com"),
        ("a1@site.org / b2@site.org", "a1@site.og/b2@site.org", "a1@site.org/b2@site.org"),
        (
            "Not b@site.org but a@site.org, see (www.site.org).",
            "Nicht b@site.og, sondern a@site.org, siehe (www.sit.org).",
            "Nicht b@site.org, sondern a@site.org, siehe (www.site.org).",
        ),
        ("xy1@site.org to xy2@site.org", "xy1@site.or nach xy2@site.or", "xy1@site.org nach xy2@site.org"),
        ("ab@site.org or ab@site.org", "ab@sit.org o ab@si te.org", "ab@site.org o ab@site.org"),
    ],
)
def test_what_resembles_an_address_of_the_source_becomes_it(
    source: str, translation: str, expected: str
) -> None:
    assert with_addresses(translation, addresses(clean(source))) == expected


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ("Hello there", "Bonjour @vous, voir www.site.fr"),
        ("Write to max@example.org", "Écris à max@example.org"),
        ("Write to max@example.org", "Écris à Max, s'il te plaît"),
        ("Contact: Max Mustermann, max.mustermann@web.de", "Kontakt: Max Mustermann"),
        ("The address of Example.com is info@example.com.", "La dirección de Example.com es esta."),
        ("Contact max at max@example.org (Example)", "Contact Max (example.org) please"),
        ("https://de.wikipedia.org/wiki/Ko\u0308ln", "https://de.wikipedia.org/wiki/Köln"),
        ("https://exam\u00adple.de/path", "https://example.de/path"),
        ("https://de.wikipedia.org/wiki/Köln", "https://de.wikipedia.org/wiki/Koln"),
        ("use http://... here", "mit http hier"),
        (" ".join(f"a{i}@site.org" for i in range(9)), "a1@site.og"),
    ],
)
def test_everything_else_stays(source: str, translation: str) -> None:
    assert with_addresses(translation, addresses(clean(source))) == translation


_PLAIN = ("Anna", "。", "example.org", "3.5")
_words = st.lists(
    st.sampled_from(
        [
            *_PLAIN,
            "x@site.org",
            "y@site.og",
            "www.site.org",
            "http://site.org/a",
            "(",
            ")",
            "<",
            ">",
            ":",
            " ",
        ]
    ),
    max_size=12,
)


@given(source=_words, translation=_words)
def test_nothing_else_is_lost(source: list[str], translation: list[str]) -> None:
    before = " ".join(translation)
    after = with_addresses(before, addresses(" ".join(source)))
    for sign in (*_PLAIN, *"()<>"):
        assert after.count(sign) == before.count(sign)


def test_a_hostile_text_is_read_once() -> None:
    for text in ("a.@" * 100_000, "a.a." * 100_000 + "@", "http://" * 100_000, "www." * 100_000):
        assert addresses(text) == []
