"""The form of `checkpoints/recipe/phrases.tsv`: phrases in English, French, German, Spanish and Chinese."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable

import pytest

from tests.embedded import RECIPE

ROWS = [line.split("\t") for line in (RECIPE / "phrases.tsv").read_text("utf-8").split("\n")[:-1]]
COLUMNS = {"en": 0, "fr": 1, "de": 2, "es": 3, "zh": 4}
LETTERS = {
    "en": "A-Za-záé",
    "fr": "A-Za-zÀÂÇÉÈÊËÎÏÔÙÛŒàâäçéèêëîïôöùûüÿœæ",
    "de": "A-Za-zÄÖÜäöüßáé",
    "es": "A-Za-zÁÉÍÓÚÜÑáéíóúüñ",
    "zh": r"A-Za-z\u4e00-\u9fff",
}
PUNCTUATION = dict.fromkeys(LETTERS, r" \d.,:;!?'()+@/%$€£°&#_-") | {
    "es": r" \d.,:;!?¿¡'()+@/%$€£°º&#_-",
    "zh": r" \d.:+@/%$€°&#_·，。？！、：…'-",
}
# In Latin letters or figures alone, these are the same in Chinese.
SAME_IN_CHINESE = re.compile(r"[\d\W]+C?|\S+[.@]\S+")


def column(language: str) -> list[str]:
    return [row[COLUMNS[language]] for row in ROWS]


def test_every_row_has_five_filled_columns() -> None:
    assert len(ROWS) >= 8000
    assert {len(row) for row in ROWS} == {5}
    assert [row for row in ROWS if not all(row)] == []


def test_no_english_text_stands_twice_with_the_same_chinese() -> None:
    both = Counter(zip(column("en"), column("zh"), strict=True))
    assert [texts for texts, count in both.items() if count > 1] == []


@pytest.mark.parametrize("language", COLUMNS)
def test_text_is_normalised_and_has_no_loose_blanks(language: str) -> None:
    texts = column(language)
    assert [text for text in texts if unicodedata.normalize("NFC", text) != text] == []
    assert [text for text in texts if text != " ".join(text.split())] == []


def without_names(text: str, row: list[str]) -> str:
    """The text without what all four languages in Latin letters write alike."""
    for name in set.intersection(*(set(re.findall(r"[^\W\d_]+", each)) for each in row[:4])):
        text = text.replace(name, "")
    return text


@pytest.mark.parametrize("language", COLUMNS)
def test_text_is_in_the_characters_of_its_language_but_for_names(language: str) -> None:
    allowed = re.compile(f"[{LETTERS[language]}{PUNCTUATION[language]}]*")
    strange = [row for row in ROWS if not allowed.fullmatch(row[COLUMNS[language]])]
    texts = [without_names(row[COLUMNS[language]], row) for row in strange]
    assert [text for text in texts if not allowed.fullmatch(text)] == []


@pytest.mark.parametrize(
    ("language", "is_wrong"),
    [
        ("zh", lambda text: not re.search(r"[\u4e00-\u9fff]", text) and not SAME_IN_CHINESE.fullmatch(text)),
        ("zh", lambda text: re.search(r"[\u4e00-\u9fff，。？！、：] (?![&+])", text)),
        ("fr", lambda text: re.search(r"[^ ][!?;]", text)),
        ("es", lambda text: text.count("¿") != text.count("?") or text.count("¡") != text.count("!")),
    ],
    ids=["Chinese", "no blanks in Chinese", "blanks before French punctuation", "Spanish marks in pairs"],
)
def test_text_follows_its_languages_rules(language: str, is_wrong: Callable[[str], object]) -> None:
    assert [text for text in column(language) if is_wrong(text)] == []


@pytest.mark.parametrize("language", ["fr", "de", "es", "zh"])
def test_questions_and_exclamations_stay_what_they_are(language: str) -> None:
    plain = str.maketrans({"？": "?", "！": "!"})
    ends = [
        (english, text)
        for english, text in zip(column("en"), column(language), strict=True)
        if (english[-1] in "?!" or text[-1] in "?!？！") and english[-1] != text.translate(plain)[-1]
    ]
    assert ends == []


@pytest.mark.parametrize("language", ["fr", "de", "es", "zh"])
def test_addresses_are_carried_over(language: str) -> None:
    addresses = re.compile(r"[\w.:/]*[@/][\w.]+\.[a-z]+[/a-z]*|www[\w.]+\w", re.ASCII)
    for english, text in zip(column("en"), column(language), strict=True):
        assert addresses.findall(english) == addresses.findall(text)
