from collections.abc import Iterable
from itertools import product
from pathlib import Path

import pytest

from model.text.tokenizer import Tokenizer
from model.training.config.sections import AugmentationConfig, CleaningConfig, CorpusConfig
from model.training.data.cleaning import CleaningReport
from model.training.data.tokenisation import directed_sentences, tokenised_chunks
from tests.model.training.parallel_text import made_up_pairs, tokenizer_of, write_corpus

COUNT = 30
PAIRS = made_up_pairs(COUNT)


@pytest.fixture
def corpus(tmp_path: Path) -> CorpusConfig:
    return write_corpus(tmp_path / "a.tsv", COUNT, bidirectional=True)


@pytest.fixture
def tokenizer(corpus: CorpusConfig, tmp_path: Path) -> Tokenizer:
    return tokenizer_of(corpus, tmp_path / "tokenizer")


def test_bidirectional_corpus_gives_both_orders(corpus: CorpusConfig) -> None:
    expected = [pair for source, target in PAIRS for pair in ((source, target), (target, source))]
    assert list(directed_sentences([corpus], CleaningConfig())) == expected


@pytest.mark.parametrize(("weight", "least", "most"), [(3.0, 900, 900), (0.1, 10, 60), (1.5, 400, 500)])
def test_sentences_come_as_often_as_an_epoch_draws_them(
    tmp_path: Path, weight: float, least: int, most: int
) -> None:
    corpus = write_corpus(tmp_path / "b.tsv", 300, weight=weight, bidirectional=True)
    other = write_corpus(tmp_path / "c.tsv", 20, seed=1)
    sentences = list(directed_sentences([corpus, other], CleaningConfig()))
    assert sentences == list(directed_sentences([corpus, other], CleaningConfig()))
    sentences = sentences[:-20]
    forward, backward = sentences[::2], sentences[1::2]
    assert least <= len(forward) <= most
    assert [(target, source) for source, target in forward] == backward


def test_small_weights_alone_lose_no_sentence(tmp_path: Path) -> None:
    corpora = [write_corpus(tmp_path / f"{w}.tsv", 300, seed=int(8 * w), weight=w) for w in (0.5, 0.125)]
    sentences = list(directed_sentences(corpora, CleaningConfig()))
    assert sentences[:300] == made_up_pairs(300, seed=4)
    assert 40 < len(sentences[300:]) < 120


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("languages", [["en", "fr"], ["fr"]])
def test_a_direction_is_as_if_it_were_tokenised_alone(
    corpus: CorpusConfig, tmp_path: Path, shared: bool, languages: list[str]
) -> None:
    """With tags and without."""
    tokenizer = tokenizer_of(corpus, tmp_path / "other", languages=languages, shared=shared)
    assert bool(tokenizer.language_tags) == (len(languages) > 1)
    report = CleaningReport()
    chunks = list(tokenised_chunks([corpus], tokenizer, CleaningConfig(), report, chunk_size=20))
    assert [(chunk.direction, len(chunk.pairs)) for chunk in chunks] == [
        (("en", "fr"), 20), (("fr", "en"), 20), (("en", "fr"), 10), (("fr", "en"), 10)
    ]  # fmt: skip
    assert report.kept == COUNT
    for turn, directed in ((1, chunks[::2]), (-1, chunks[1::2])):
        for pair, texts in zip((pair for chunk in directed for pair in chunk.pairs), PAIRS, strict=True):
            source, target = texts[::turn]
            assert pair.source == tokenizer.encode(source, target_language=directed[0].direction[1])
            assert pair.target == tokenizer.encode_target(target)


def english_and_french(file: Path, rows: Iterable[tuple[str, str]], weight: float = 1.0) -> CorpusConfig:
    file.write_text("".join(f"{english}\t{french}\n" for english, french in rows))
    languages = {"source_language": "en", "target_language": "fr"}
    return CorpusConfig(path=str(file), **languages, bidirectional=True, weight=weight)


def test_what_sources_spell_out_is_spelt_out_in_either_direction(tmp_path: Path) -> None:
    known = english_and_french(tmp_path / "known.tsv", [("Figure 1 of 2", "Figure 1 sur 2")] * 5)
    tokenizer = tokenizer_of(known, tmp_path / "made", byte_fallback=False)
    rows = [("Figure 1", "Figure １"), ("Figure ２", "Figure 2"), ("Figure 2", "Figure 2")]
    corpus = english_and_french(tmp_path / "a.tsv", rows)
    cleaning = CleaningConfig(drop_copies=False, deduplicate=False)
    chunks = tokenised_chunks([corpus], tokenizer, cleaning, CleaningReport())
    for chunk, turned in zip(chunks, (False, True), strict=True):
        for row, pair in zip(rows, chunk.pairs, strict=True):
            source, target = reversed(row) if turned else row
            assert pair.source == tokenizer.encode(source, target_language=chunk.direction[1])
            assert pair.target == tokenizer.encode_target(target)


def test_pair_too_long_in_tokens_is_dropped_in_both_directions(
    corpus: CorpusConfig, tokenizer: Tokenizer
) -> None:
    limit = 40
    fitting = [pair for pair in PAIRS if max(map(len, pair)) + 3 <= limit]  # tag, word mark, EOS
    report = CleaningReport()
    cleaning = CleaningConfig(max_length_tokens=limit)
    forward, backward = tokenised_chunks([corpus], tokenizer, cleaning, report)
    assert 0 < len(fitting) < COUNT
    assert len(forward.pairs) == len(backward.pairs) == len(fitting)
    assert report == CleaningReport(kept=len(fitting), dropped={"too_long": COUNT - len(fitting)})


def test_altered_copies_follow_their_chunk(corpus: CorpusConfig, tokenizer: Tokenizer) -> None:
    alterations = AugmentationConfig(no_final_stop=1, joined=1)
    report = CleaningReport()
    forward, backward, copies, turned = tokenised_chunks(
        [corpus], tokenizer, CleaningConfig(), report, alterations
    )
    assert (report.kept, len(forward.pairs), len(backward.pairs)) == (COUNT, COUNT, COUNT)
    assert [chunk.direction for chunk in (copies, turned)] == [("en", "fr"), ("fr", "en")]
    assert copies.kinds == ["no_final_stop", "joined"] * COUNT
    english, french = (side.removesuffix(".") for side in PAIRS[0])
    assert copies.pairs[0].source == tokenizer.encode(english, target_language="fr")
    assert copies.pairs[0].target == tokenizer.encode_target(french)
    assert turned.pairs[0].source == tokenizer.encode(french, target_language="en")
    assert turned.pairs[0].target == tokenizer.encode_target(english)
    assert copies.weight == corpus.weight


def test_copies_that_cannot_be_used_are_left_out(corpus: CorpusConfig, tokenizer: Tokenizer) -> None:
    """Too long for the network, or with characters that the vocabulary lacks."""
    longest = max(len(side) for pair in PAIRS for side in pair) + 3
    cleaning = CleaningConfig(max_length_tokens=longest)
    alterations = AugmentationConfig(joined=1, capitals=1, copied=3)
    chunks = list(tokenised_chunks([corpus], tokenizer, cleaning, CleaningReport(), alterations))
    copies = [pair for chunk in chunks[2:] for pair in chunk.pairs]
    kinds = {kind for chunk in chunks for kind in chunk.kinds}
    assert "copied" in kinds
    assert "capitals" not in kinds  # this corpus has small letters alone, and so have its pieces
    assert all(max(map(len, pair)) <= longest for pair in copies)
    assert not any(tokenizer.unk_id in side for pair in copies for side in pair)


def test_words_follow_their_corpus_with_a_weight_of_their_own(tmp_path: Path) -> None:
    nouns = {"dog": "chien", "cat": "chat", "house": "maison", "tree": "arbre", "road": "route"}
    when = {"again": "Encore", "now": "Voici"}
    rows = (
        (f"{number} the {e} {then}.", f"{when[then]} {number} le {f}.")
        for (e, f), then, number in product(nouns.items(), when, range(20, 25))
    )
    corpus = english_and_french(tmp_path / "words.tsv", rows, weight=2.0)
    tokenizer = tokenizer_of(corpus, tmp_path / "tokenizer")
    alterations = AugmentationConfig(words=0.25)
    chunks = list(tokenised_chunks([corpus], tokenizer, CleaningConfig(), CleaningReport(), alterations))
    assert [chunk.weight for chunk in chunks] == [2.0, 2.0, 0.5, 0.5]
    assert set(chunks[2].kinds) == {"words"}
    dog = (tokenizer.encode("dog", target_language="fr"), tokenizer.encode_target("chien"))
    chat = (tokenizer.encode("chat", target_language="en"), tokenizer.encode_target("cat"))
    assert dog in chunks[2].pairs
    assert chat in chunks[3].pairs
