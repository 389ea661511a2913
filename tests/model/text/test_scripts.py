import pytest

from model.text.scripts import count_words, in_script_of, letters_of_scripts


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("Où est la gare ?", "fr", True),
        ("Where is the station?", "fr", True),
        ("Где вокзал?", "fr", False),
        ("Где вокзал?", "ru", True),
        ("Where?", "ru", False),
        ("车站在哪里？", "zh-Hans", True),
        ("hello there my friend", "cmn", False),
        ("车站在哪里？", "en", False),
        ("汤姆住在New Haven。", "zh", True),
        ("返回 Address/Network/Interface 对象。", "zh", True),
        ("Where is it?", "zh", False),
        ("Tom a déménagé à 東京.", "fr", True),
        ("Tom lives in 华盛顿 now, doesn't he?", "zh", False),
        ("Tom moved to 東京.", "en", True),
        ("駅はどこですか。", "ja", True),
        ("역이 어디예요?", "ko", True),
        ("12:30 — 50 %", "zh", True),
        ("Где вокзал?", "xx", True),
    ],
)
def test_script(text: str, language: str, expected: bool) -> None:
    assert in_script_of(text, language) is expected


@pytest.mark.parametrize(
    ("text", "words"),
    [("Where is it?", 3), ("  Où ça ? ", 3), ("车站在哪里？", 6), ("我爱 Paris", 3), ("", 0)],
)
def test_count_words(text: str, words: int) -> None:
    assert count_words(text) == words


def test_letters_of_scripts_that_are_common() -> None:
    letters = letters_of_scripts("abcdeπ中国", at_least=2)
    assert letters.findall("Łódź, λόγος, 葡萄 12") == [*"Łódź", *"葡萄"]
    assert not letters_of_scripts("abcπ", at_least=4).search("abc")
