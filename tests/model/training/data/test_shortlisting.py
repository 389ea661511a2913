from collections import Counter
from pathlib import Path

import pytest

from model.checkpoint.shortlist import Shortlist
from model.text.tokenizer import Tokenizer
from model.training.data.lexicon import Lexicon, ParallelIds, make_shortlist
from tests.conftest import PHRASES
from tests.tiny import tiny_config


@pytest.fixture(scope="module")
def tokenizer(tiny_tokenizer_folder: Path) -> Tokenizer:
    return Tokenizer.load(tiny_tokenizer_folder)


def made(tokenizer: Tokenizer, **options: int) -> Shortlist:
    pairs = ParallelIds.of(
        [(tokenizer.encode(en, target_language="fr"), tokenizer.encode_target(fr)) for en, fr in PHRASES]
    )
    lexicon = Lexicon.learn(pairs, tokenizer.target_vocab_size, lambda _: None)
    return make_shortlist(pairs, lexicon, tokenizer, **options)


def test_it_fits_its_network(tokenizer: Tokenizer) -> None:
    made(tokenizer, per_token=2, always=3).check(tiny_config(tokenizer))


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
