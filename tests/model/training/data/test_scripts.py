import pytest

from model.training.data.scripts import count_words, in_script_of


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
