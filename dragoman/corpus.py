"""A corpus of any size: `from dragoman.corpus import Corpus, CorpusJob, translate_corpus`."""

from model.translation.corpus import Corpus, CorpusJob, translate_corpus
from model.translation.text_lines import LineForm

__all__ = ["Corpus", "CorpusJob", "LineForm", "translate_corpus"]
