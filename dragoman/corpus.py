"""A corpus of any size: `from dragoman.corpus import Corpus, CorpusJob, translate_corpus`."""

from model.translation.corpus_translation import Corpus, CorpusJob, translate_corpus
from model.translation.lines import LineForm

__all__ = ["Corpus", "CorpusJob", "LineForm", "translate_corpus"]
