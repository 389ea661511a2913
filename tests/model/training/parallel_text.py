"""Parallel text that tests make up: enough of it to learn pieces from."""

import random
from pathlib import Path

from model.training.config.data import CorpusConfig

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
