from pathlib import Path

import pytest

from model.errors import CorpusError
from model.text.tokenizer import Tokenizer
from model.training.data.cleaning import CleaningReport
from model.training.data.config import CleaningConfig, CorpusConfig, VocabularyConfig
from model.training.data.tokenisation import directed_sentences, tokenised_chunks
from model.training.data.vocabulary import train_tokenizer
from tests.model.training.parallel_text import made_up_pairs, write_corpus

COUNT = 30
PAIRS = made_up_pairs(COUNT)


@pytest.fixture
def corpus(tmp_path: Path) -> CorpusConfig:
    return write_corpus(tmp_path / "a.tsv", COUNT, bidirectional=True)


@pytest.fixture
def tokenizer(corpus: CorpusConfig, tmp_path: Path) -> Tokenizer:
    config = VocabularyConfig(kind="char", size=200)
    sentences = directed_sentences([corpus], CleaningConfig())
    return train_tokenizer(sentences, config, target_languages=["en", "fr"], folder=tmp_path / "tokenizer")


def test_bidirectional_corpus_gives_both_orders(corpus: CorpusConfig) -> None:
    expected = [pair for source, target in PAIRS for pair in ((source, target), (target, source))]
    assert list(directed_sentences([corpus], CleaningConfig())) == expected


def test_ids_of_both_directions(corpus: CorpusConfig, tokenizer: Tokenizer) -> None:
    report = CleaningReport()
    chunks = list(tokenised_chunks([corpus], tokenizer, CleaningConfig(), report, chunk_size=20))
    assert [(chunk.direction, len(chunk.pairs)) for chunk in chunks] == [
        (("en", "fr"), 20), (("fr", "en"), 20), (("en", "fr"), 10), (("fr", "en"), 10)
    ]  # fmt: skip
    english, french = PAIRS[3]
    tags = tokenizer.language_tags
    forward, backward = chunks[0].pairs[3], chunks[1].pairs[3]
    assert forward.source == [tags["fr"], *tokenizer.encode_target(english)]
    assert forward.target == tokenizer.encode_target(french)
    assert backward.source == [tags["en"], *tokenizer.encode_target(french)]
    assert backward.target == tokenizer.encode_target(english)
    assert forward.target[-1] == tokenizer.eos_id
    assert tokenizer.bos_id not in forward.source + forward.target
    assert report.kept == COUNT


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


def test_bad_line_stops(corpus: CorpusConfig, tokenizer: Tokenizer) -> None:
    with Path(corpus.path).open("a") as file:
        file.write("no tab\n")
    with pytest.raises(CorpusError, match=f":{COUNT + 1}:"):
        list(tokenised_chunks([corpus], tokenizer, CleaningConfig(), CleaningReport()))
