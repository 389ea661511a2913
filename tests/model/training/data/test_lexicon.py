import random
from collections import Counter, defaultdict
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from model.checkpoint.shortlist import Shortlist
from model.text.tokenizer import Tokenizer
from model.training.data import lexicon
from model.training.data.corpus import SentencePair
from model.training.data.lexicon import ITERATIONS, Lexicon, ParallelIds, WordPairs, make_shortlist, segments
from tests.conftest import PHRASES

# "the house", "the book", "a book" and "das Haus", "das Buch", "ein Buch": the example of the textbooks.
THE, HOUSE, BOOK, A = range(4)
DAS, HAUS, BUCH, EIN = range(4, 8)
PAIRS = [([THE, HOUSE], [DAS, HAUS]), ([THE, BOOK], [DAS, BUCH]), ([A, BOOK], [EIN, BUCH])]
VOCAB = 8
NOUNS = {"dog": "Hund", "cat": "Katze", "house": "Haus", "Boston": "Boston"}
VERBS = {"sees": "sieht", "finds": "findet", "likes": "mag"}
GERMAN = ("Hund", "Katze", "Haus", "sieht", "findet", "mag", "Boston")
HAN = dict(zip(GERMAN, ("狗", "猫", "房子", "看", "找到", "喜欢", "城"), strict=True))
WHICH = {"this": "dies", "every": "jedes"}
WORD_PAIRS = [
    SentencePair(f"Somebody {verb} {which} {noun}.", f"Jemand {VERBS[verb]} {WHICH[which]} {NOUNS[noun]}.")
    for verb, which, noun in product(VERBS, WHICH, NOUNS)
] * 3


def slow_model_1(pairs: list[tuple[list[int], list[int]]]) -> dict[tuple[int, int], float]:
    """By the paper's equations, pair by pair."""
    met = {key for sources, targets in pairs for key in product(sources, targets)}
    probability = dict.fromkeys(met, 1.0)
    for _ in range(ITERATIONS):
        expected: dict[tuple[int, int], float] = defaultdict(float)
        for sources, targets in pairs:
            for t in targets:
                total = sum(probability[s, t] for s in sources)
                for s in sources:
                    expected[s, t] += probability[s, t] / total
        totals: dict[int, float] = defaultdict(float)
        for (s, _), value in expected.items():
            totals[s] += value
        probability = {(s, t): value / totals[s] for (s, t), value in expected.items()}
    return probability


def learned(pairs: list[tuple[list[int], list[int]]]) -> Lexicon:
    return Lexicon.learn(ParallelIds.of(pairs), VOCAB, lambda _: None)


def as_dict(lexicon: Lexicon) -> dict[tuple[int, int], float]:
    keys = zip(lexicon.sources.tolist(), lexicon.targets.tolist(), strict=True)
    return dict(zip(keys, lexicon.probabilities.tolist(), strict=True))


def test_it_is_model_1() -> None:
    pairs = [*PAIRS, ([A], [EIN]), ([THE, BOOK, THE], [DAS, DAS])]
    assert as_dict(learned(pairs)) == pytest.approx(slow_model_1(pairs))


def test_what_is_not_wanted_leaves_room_for_the_next_best() -> None:
    sources, targets = learned(PAIRS).best(1, without=np.array([DAS, BUCH], dtype=np.int32))
    assert dict(zip(sources.tolist(), targets.tolist(), strict=True))[THE] == HAUS


def test_memory_is_bounded_and_what_meets_often_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexicon, "_MOST_ENTRIES", 2)
    kept = learned([*PAIRS, ([THE, BOOK], [DAS, BUCH])])
    assert len(kept.keys) == 2
    assert set(as_dict(kept)) <= set(product((THE, BOOK), (DAS, BUCH)))
    assert not np.isnan(kept.probabilities).any()


IDS = [([1, 2], [7, 8, 9]), ([3], [7]), ([4, 4], [5, 6])]


def all_cooccurrences(pairs: ParallelIds) -> list[tuple[int, int]]:
    return [
        meeting
        for _, part in pairs.cooccurrences()
        for meeting in zip(part.sources.tolist(), part.targets.tolist(), strict=True)
    ]


def expected_cooccurrences(pairs: list[tuple[list[int], list[int]]]) -> list[tuple[int, int]]:
    return [(s, t) for sources, targets in pairs for t in targets for s in sources]


def test_joined_pairs_are_the_pairs_of_both() -> None:
    joined = ParallelIds.joined([ParallelIds.of(IDS[:1]), ParallelIds.of(IDS[1:])])
    assert len(joined) == 3
    assert all_cooccurrences(joined) == expected_cooccurrences(IDS)


@pytest.mark.parametrize("cells", [1, 2, 7, 50])
def test_few_at_a_time_are_the_same(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexicon, "_CELLS_AT_ONCE", cells)
    drawn = random.Random(1)
    pairs = [
        ([drawn.randrange(9) for _ in range(drawn.randint(1, 6))], [drawn.randrange(9) for _ in range(3)])
        for _ in range(20)
    ]
    joined = ParallelIds.of(pairs)
    assert sum(count for count, _ in joined.cooccurrences()) == 20
    assert all_cooccurrences(joined) == expected_cooccurrences(pairs)


@pytest.fixture(scope="module")
def tokenizer(tiny_tokenizer_folder: Path) -> Tokenizer:
    return Tokenizer.load(tiny_tokenizer_folder)


def made(tokenizer: Tokenizer, **options: int) -> Shortlist:
    pairs = ParallelIds.of(
        [(tokenizer.encode(en, target_language="fr"), tokenizer.encode_target(fr)) for en, fr in PHRASES]
    )
    lexicon = Lexicon.learn(pairs, tokenizer.target_vocab_size, lambda _: None)
    return make_shortlist(pairs, lexicon, tokenizer, **options)


def test_eos_and_what_is_frequent_are_always_candidates(tokenizer: Tokenizer) -> None:
    assert made(tokenizer, per_token=1, always=0).always.tolist() == [tokenizer.eos_id]
    counts = Counter(token for _, french in PHRASES for token in tokenizer.encode_target(french))
    frequent = made(tokenizer, per_token=1, always=4).always.tolist()
    assert sorted(counts[token] for token in frequent) == sorted(counts.values())[-4:]


def test_with_a_shared_vocabulary_what_is_copied_is_a_candidate(tokenizer: Tokenizer) -> None:
    unseen = tokenizer.encode("Zürich 1789", target_language="fr")
    candidates = made(tokenizer, per_token=1, always=0).choose(unseen)
    assert {*unseen} <= {*candidates.tolist()}


def test_the_translations_of_known_text_are_candidates(tokenizer: Tokenizer) -> None:
    shortlist = made(tokenizer, per_token=20, always=5)
    for english, french in PHRASES:
        candidates = shortlist.choose(tokenizer.encode(english, target_language="fr")).tolist()
        assert {*tokenizer.encode_target(french)} <= {*candidates}


def test_no_source_token_has_more_than_asked_for_and_itself(tokenizer: Tokenizer) -> None:
    shortlist = made(tokenizer, per_token=2, always=3)
    lengths = shortlist.offsets[1:] - shortlist.offsets[:-1]
    assert lengths.max() == 3
    assert lengths.min() == 1


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
