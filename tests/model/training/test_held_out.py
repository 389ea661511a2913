from pathlib import Path

from model.training.validation import Row, TranslatedText, held_out_texts
from tests.model.training.parallel_text import write_corpus


def test_held_out_text_is_grouped_by_direction_and_bounded(tmp_path: Path) -> None:
    both = write_corpus(tmp_path / "a.tsv", 5, bidirectional=True)
    one = write_corpus(tmp_path / "b.tsv", 5, seed=1)
    forward, backward = held_out_texts([both, one], max_sentences=2)
    assert forward.direction == ("en", "fr")
    assert backward.direction == ("fr", "en")
    assert forward.pair == "en-fr"
    assert len(forward.sources) == 2
    assert backward.sources == forward.references[:2]
    assert len(held_out_texts([one], max_sentences=0)[0].sources) == 5


def test_a_row_is_one_sentence() -> None:
    text = TranslatedText("en", "fr", ("one", "two"), ("un", "deux"), ("un", "de"))
    assert list(text.rows()) == [Row("one", "un", "un"), Row("two", "deux", "de")]


def test_the_bound_is_of_a_direction_however_many_corpora_it_has(tmp_path: Path) -> None:
    corpora = [write_corpus(tmp_path / f"{seed}.tsv", 2, seed=seed) for seed in range(3)]
    (text,) = held_out_texts(corpora, max_sentences=3)
    (whole,) = held_out_texts(corpora, max_sentences=0)
    assert (len(text.sources), len(whole.sources)) == (3, 6)
    assert text.sources == whole.sources[:3]
