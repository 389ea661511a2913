from itertools import product

from model.training.data.augmentation.word_pairs import WordPairs, segments
from model.training.data.corpus import SentencePair

NOUNS = {"dog": "Hund", "cat": "Katze", "house": "Haus", "Boston": "Boston"}
VERBS = {"sees": "sieht", "finds": "findet", "likes": "mag"}
HAN = {
    "Hund": "狗",
    "Katze": "猫",
    "Haus": "房子",
    "sieht": "看",
    "findet": "找到",
    "mag": "喜欢",
    "Boston": "城",
}
PAIRS = [
    SentencePair(f"Somebody {verb} this {noun}.", f"Jemand {VERBS[verb]} dies {NOUNS[noun]}.")
    for verb, noun in product(VERBS, NOUNS)
] * 3


def unused(_: object) -> list[list[str]]:
    raise AssertionError("these languages have spaces")


def test_words_that_translate_each_other_are_found_in_both_directions() -> None:
    words = WordPairs(PAIRS, ("en", "de"), (unused, unused))
    forward = list(words.directed())
    for english, german in (VERBS | NOUNS).items():
        is_there = SentencePair(english, german) in forward
        assert is_there == (english != "Boston")  # a name is carried over, not translated
    assert SentencePair("Dog", "Hund") in forward
    assert SentencePair("Sees", "Sieht") in forward
    backward = list(words.directed(reverse=True))
    assert {("hund", "dog"), ("Hund", "Dog"), ("sieht", "sees")} <= set(backward)
    assert len(forward) == len(backward) == 2 * len(words)


def test_a_language_without_spaces_is_cut_by_its_segmenter() -> None:
    texts = [SentencePair(pair.source, _in_han(pair.target)) for pair in PAIRS]
    words = WordPairs(texts, ("en", "zh"), (unused, lambda rows: [row.split("/") for row in rows]))
    assert SentencePair("dog", "狗") in list(words.directed())
    backward = list(words.directed(reverse=True))
    assert SentencePair("房子", "house") in backward
    assert len(backward) == len(words)  # no second one with a capital: nothing in the source would tell


def test_rare_words_are_left_out() -> None:
    assert len(WordPairs(PAIRS[:4], ("en", "de"), (unused, unused))) == 0


def test_segments_are_the_letters_among_pieces() -> None:
    assert segments(["<2fr>", "▁dog", "房子", "▁", ".", "<0xE5>", "7", "</s>"]) == ["dog", "房子"]


def _in_han(german: str) -> str:
    return "/".join(HAN.get(word, word) for word in german.removesuffix(".").split())
