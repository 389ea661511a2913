"""Parallel text that tests make up: enough of it to learn pieces from."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from model.text.tokenizer import Tokenizer
from model.training.config_sections import CleaningConfig, CorpusConfig, VocabularyConfig
from model.training.data.tokenisation import directed_sentences
from model.training.data.vocabulary import train_tokenizer

_ENGLISH = "dog cat tree river stone house bird fish cloud road small big red green old sees likes has"
_FRENCH = "chien chat arbre fleuve pierre maison oiseau poisson nuage route petit grand rouge vert vieux"


def made_up_pairs(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Distinct pairs of between two and twelve words a side; their number stands in each."""
    generator = random.Random(seed)
    pairs = []
    for number in range(count):
        length = generator.randint(2, 11)
        source, target = (
            " ".join([str(number), *generator.choices(words.split(), k=length + generator.randint(0, 1))])
            for words in (_ENGLISH, _FRENCH)
        )
        pairs.append((f"{source}.", f"{target}."))
    return pairs


def write_corpus(path: Path, count: int, seed: int = 0, **values: object) -> CorpusConfig:
    """A tab-separated corpus of such pairs."""
    lines = (f"{source}\t{target}\n" for source, target in made_up_pairs(count, seed))
    path.write_text("".join(lines), encoding="utf-8")
    return CorpusConfig(**({"path": str(path), "source_language": "en", "target_language": "fr"} | values))  # type: ignore[arg-type]


def tokenizer_of(
    corpus: CorpusConfig, folder: Path, *, languages: Sequence[str] = ("en", "fr"), **values: Any
) -> Tokenizer:
    """A tokenizer of a corpus' characters, unless `values` of VocabularyConfig differ."""
    config = VocabularyConfig(**{"kind": "char", "size": 200} | values)
    sentences = directed_sentences([corpus], CleaningConfig())
    return train_tokenizer(sentences, config, target_languages=languages, folder=folder)
