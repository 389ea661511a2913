"""One stage of preparation, in a process of its own: what it took, as JSON on standard output."""

import json
import resource
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.machine import memory_of
from model.training.config.data import AugmentationConfig, CleaningConfig, CorpusConfig, VocabularyConfig
from model.training.data.dataset import prepare
from model.training.data.tokenisation import directed_sentences
from model.training.data.vocabulary import train_tokenizer

CORPUS_FILE = "pairs.tsv"
STAGES = ("vocabulary", "tokenise")

_LANGUAGES = ("en", "fr")
_SENTENCES_AT_ONCE = 50_000
_LONGEST = 30
_WORDS = 50_000
_VOCABULARY = VocabularyConfig(size=4000, max_sentences=50_000)
_RECOMMENDED = AugmentationConfig(
    no_final_stop=0.12,
    capitals=0.04,
    capitalised=0.5,
    lowercase=0.08,
    plain_letters=0.08,
    typing_errors=0.06,
    joined=0.08,
    copied=0.15,
    words=1.0,
)


def write_made_up_pairs(path: Path, count: int) -> None:
    """So many pairs of lines, of words whose frequencies follow Zipf's law; nearly all differ."""
    generator = np.random.default_rng(1)
    sides = [_made_up_words(generator) for _ in _LANGUAGES]
    shares = 1 / np.arange(1, _WORDS + 1)
    bounds = np.cumsum(shares / shares.sum())
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, count, _SENTENCES_AT_ONCE):
            lengths = generator.integers(3, _LONGEST, min(_SENTENCES_AT_ONCE, count - start))
            drawn = np.searchsorted(bounds, generator.random(int(lengths.sum())))
            texts = [_sentences(words[drawn], lengths) for words in sides]
            file.writelines(f"{source}\t{target}\n" for source, target in zip(*texts, strict=True))


def _sentences(words: np.ndarray, lengths: np.ndarray) -> list[str]:
    ends = np.cumsum(lengths).tolist()
    row = words.tolist()
    return [
        " ".join(row[end - length : end]).capitalize() + "."
        for end, length in zip(ends, lengths.tolist(), strict=True)
    ]


def _made_up_words(generator: np.random.Generator) -> np.ndarray:
    syllables = np.array([first + second for first in "bcdfglmnprstv" for second in "aeiou"])
    drawn = syllables[generator.integers(0, len(syllables), (_WORDS, 4))]
    sizes = generator.integers(1, 5, _WORDS).tolist()
    return np.array(["".join(row[:size]) for row, size in zip(drawn.tolist(), sizes, strict=True)])


def main() -> None:
    """Do the stage that the first argument names in the folder that the second one is."""
    stage, folder, augmented = sys.argv[1], Path(sys.argv[2]), sys.argv[3] == "1"
    corpus = CorpusConfig(
        path=str(folder / CORPUS_FILE),
        source_language=_LANGUAGES[0],
        target_language=_LANGUAGES[1],
        bidirectional=True,
    )
    begun, processor, start = time.perf_counter(), time.process_time(), _peak()
    if stage == STAGES[0]:
        sentences = directed_sentences([corpus], CleaningConfig())
        train_tokenizer(sentences, _VOCABULARY, target_languages=_LANGUAGES, folder=folder / "tokenizer")
    else:
        augmentation = _RECOMMENDED if augmented else AugmentationConfig()
        place = folder / "data"
        prepare([corpus], folder / "tokenizer", CleaningConfig(), place, augmentation=augmentation)
    taken = {
        "seconds": time.perf_counter() - begun,
        "processor": time.process_time() - processor,
        "start": start,
        "peak": _peak(),
    }
    json.dump(taken, sys.stdout)


def _peak() -> int:
    """The most memory that this process has had, in bytes.

    Linux's `ru_maxrss` would not do: it begins with that of the process that started this one.
    """
    return memory_of("self", "VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()
