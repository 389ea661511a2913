"""The embedded checkpoint gives back each string that is not translated, exactly as often as it was there."""

import pytest

from model.translation.translator import Translator

STRINGS = {
    "addresses": ("https://example.org/a_(b)?c=d&e", "www.example.com", "example.co.uk/de", "a@ex-ample.de"),
    "people and subjects": ("@jane_doe", "#travel", "#été2024"),
    "amounts": ("3.5 kg", "90 km/h", "-12 °C", "12%", "1,234,567", "1.234,56", "$19.99", "45 €", "CHF 12.50"),
    "dates": ("2024-12-31", "24.12.2025", "2025-01-15T08:30Z"),
    "numbers": ("+33 6 12 34 56 78", "(555) 123-4567", "DE89 3704 0044 0532 0130 00", "978-3-16-148410-0"),
    "versions": ("v2.3.1", "1.0.0-rc.1", "192.168.0.1:8080", "550e8400-e29b-41d4-a716-446655440000"),
    "names": ("#ff8800", "A4", "COVID-19", "H₂O", "0xDEADBEEF"),
    "placeholders": ("{name}", "{0}", "%1$s", "%d", "%(x)s", "{{ x }}", "${X}", "$HOME", "<%= x %>", "[[x]]"),
    "messages": ("{n, plural, =0 {none} one {{a} has #} other {#}}", "{g, select, a {he} other {it}}"),
    "code": ("`git commit -m \"x\"`", "foo.bar()", "snake_case", "std::string", "--name=value"),
    "files": ("report_1.pdf", "src/main.rs", "/usr/bin", "C:\\Users\\Max", "~/.bashrc", "backup.tar.gz"),
    "markup": ("<b>", "</b>", "<a href=\"x\">", "<0>", "&nbsp;", "&#39;", "::x::", ":smile:"),
    "symbols": ("😀", "👍🏽", "👨‍👩‍👧‍👦", "🇫🇷", "1️⃣", "©", "→"),
}  # fmt: skip
TEXTS = {
    "en": ("{} is very important.", "My brother sent me {} and {} yesterday.", "I do not understand {}"),
    "fr": ("{} est très important.", "Mon frère m'a envoyé {} et {} hier.", "Je ne comprends pas {}"),
    "de": (
        "{} ist sehr wichtig.",
        "Mein Bruder hat mir gestern {} und {} geschickt.",
        "Ich verstehe {} nicht",
    ),
    "es": ("{} es muy importante.", "Mi hermano me envió {} y {} ayer.", "No entiendo {}"),
    "zh": ("{}很重要。", "我哥哥昨天给我发了{}和{}。", "我不明白{}"),
}


PAIRS = [pair for other in ("fr", "de", "es", "zh") for pair in (("en", other), (other, "en"))]


@pytest.mark.parametrize(("shift", "pair"), list(enumerate(PAIRS)))
def test_each_string_comes_back_as_often_as_it_was_there(
    translator: Translator, shift: int, pair: tuple[str, str]
) -> None:
    """Each in one text of a direction, and in all texts over the directions from English."""
    source, target = pair
    strings = [string for kind in STRINGS.values() for string in kind]
    asked = [
        TEXTS[source][(place + shift // 2) % 3].replace("{}", string, 1).replace("{}", strings[place - 7], 1)
        for place, string in enumerate(strings)
    ]
    found = translator.translate(asked, source=source, target=target)
    wrong = [
        (text, str(translation))
        for string, text, translation in zip(strings, asked, found, strict=True)
        if translation.count(string) != text.count(string)
    ]
    assert wrong == []
