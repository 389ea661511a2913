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
WHICH = {"this": "dies", "every": "jedes"}
WORD_PAIRS = [
    SentencePair(f"Somebody {verb} {which} {noun}.", f"Jemand {VERBS[verb]} {WHICH[which]} {NOUNS[noun]}.")
    for verb, which, noun in product(VERBS, WHICH, NOUNS)
] * 3


def unused(_: object) -> list[list[str]]:
    raise AssertionError("these languages have spaces")


def test_words_that_translate_each_other_are_found_in_both_directions() -> None:
    words = WordPairs(WORD_PAIRS, ("en", "de"), (unused, unused))
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
    texts = [SentencePair(pair.source, _in_han(pair.target)) for pair in WORD_PAIRS]
    words = WordPairs(texts, ("en", "zh"), (unused, lambda rows: [row.split("/") for row in rows]))
    assert SentencePair("dog", "狗") in list(words.directed())
    backward = list(words.directed(reverse=True))
    assert SentencePair("房子", "house") in backward
    han = [pair.source for pair in backward if pair.source in HAN.values()]
    assert len(han) == len(set(han))  # no second one with a capital: nothing in the source would tell


def test_a_word_of_several_parts_is_one_word_and_a_contraction_none() -> None:
    french = {"today": "aujourd'hui", "later": "l'après-midi", "soon": "peut-être", "don't": "pas"}
    pairs = [
        SentencePair(f"We {verb} {word}.", f"Nous {VERBS[verb]} {meant}.")
        for verb, (word, meant) in product(VERBS, french.items())
    ] * 3
    found = set(WordPairs(pairs, ("en", "fr"), (unused, unused)).directed())
    whole = {("today", "aujourd'hui"), ("later", "après-midi"), ("soon", "peut-être")}
    assert whole | {(source.capitalize(), target.capitalize()) for source, target in whole} <= found
    said = {pair.source.lower() for pair in found}
    assert not said & {"don't", "don"}
    assert not {pair.target for pair in found} & {"hui", "aujourd", "midi", "après", "être", "peut"}


def test_half_of_an_expression_is_no_word() -> None:
    thanks = [SentencePair(f"Thank you, {noun}.", f"Danke, {NOUNS[noun]}.") for noun in NOUNS] * 5
    others = [SentencePair(f"We {verb} you.", f"Wir {VERBS[verb]} dich.") for verb in VERBS] * 5
    found = list(WordPairs(WORD_PAIRS + thanks + others, ("en", "de"), (unused, unused)).directed())
    assert ("you", "dich") in found
    assert ("thank", "danke") not in found


def test_parts_of_a_name_are_no_translations_of_each_other() -> None:
    pairs = [SentencePair(f"Somebody {verb} New York.", f"Jemand {VERBS[verb]} New York.") for verb in VERBS]
    said = {
        pair.source for pair in WordPairs(WORD_PAIRS + pairs * 2, ("en", "de"), (unused, unused)).directed()
    }
    assert "sees" in said
    assert not said & {"new", "york"}


def test_a_turkish_capital_keeps_its_dot() -> None:
    turkish = {"goes": "ilerler", "sees": "izler", "finds": "bulur"}
    pairs = [SentencePair(f"Biri {said}.", f"Somebody {verb}.") for verb, said in turkish.items()] * 6
    found = list(WordPairs(pairs, ("tr", "en"), (unused, unused)).directed())
    assert SentencePair("İlerler", "Goes") in found
    assert SentencePair("ilerler", "goes") in found


def test_rare_words_are_left_out() -> None:
    assert len(WordPairs(WORD_PAIRS[:4], ("en", "de"), (unused, unused))) == 0


def test_segments_are_the_letters_among_pieces() -> None:
    assert segments(["<2fr>", "▁dog", "房子", "▁", ".", "<0xE5>", "7", "</s>"]) == ["dog", "房子"]


def _in_han(german: str) -> str:
    return "/".join(HAN.get(word, word) for word in german.removesuffix(".").split())
