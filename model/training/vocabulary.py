"""ⓒ The tokenizer: SentencePiece models learned from the corpus, or a folder of them taken over."""

import random
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import sentencepiece

from model.errors import CorpusError, TrainingError
from model.text.tokenizer import (
    SETTINGS_FILE,
    SHARED_FILE,
    SOURCE_FILE,
    TARGET_FILE,
    Tokenizer,
    TokenizerSettings,
    language_tags,
)
from model.training.data_config import VocabularyConfig

PAD_ID, UNK_ID, BOS_ID, EOS_ID = range(4)
_NUM_SPECIAL = 4
_SAMPLE_SEED = 1


class Sides(NamedTuple):
    """Sentences the network reads, and sentences it writes; equally many."""

    source: Sequence[str]
    target: Sequence[str]


def train_tokenizer(
    pairs: Iterable[tuple[str, str]],
    config: VocabularyConfig,
    *,
    target_languages: Iterable[str],
    folder: Path,
) -> Tokenizer:
    """Learn a tokenizer and write its files; the same input gives the same files.

    Args:
        pairs: (source, target) sentences, directed: a bidirectional corpus gives both orders.
            Streamed; not read at all when `config.reuse` names a folder.
        config: Kind and size.
        target_languages: Codes of all languages translated into. More than one makes language
            tags, which become control symbols of the source side.
        folder: Made if need be; old tokenizer files in it are overwritten.

    Returns:
        The tokenizer, loaded from the folder.

    Raises:
        CorpusError: If there is no sentence, or too little text for the size asked.
        TokenizerError: If the folder to reuse holds no tokenizer.
        TrainingError: If the tokenizer to reuse lacks a language tag.
    """
    folder.mkdir(parents=True, exist_ok=True)
    codes = sorted(set(target_languages))
    if config.reuse is not None:
        return _take_over(Path(config.reuse), codes, folder)
    tags = language_tags(codes) if len(codes) > 1 else {}
    settings = TokenizerSettings(
        tags=tags, lowercase=config.lowercase, separate_punctuation=config.separate_punctuation
    )
    sides = _sample(pairs, settings, config.max_sentences)
    for file in (SHARED_FILE, SOURCE_FILE, TARGET_FILE):
        (folder / file).unlink(missing_ok=True)
    if config.shared:
        _train(
            folder / SHARED_FILE, list(dict.fromkeys((*sides.source, *sides.target))), config, tags.values()
        )
    else:
        _train(folder / SOURCE_FILE, sides.source, config, tags.values())
        _train(folder / TARGET_FILE, sides.target, config, ())
    settings.save(folder)
    return Tokenizer.load(folder)


def _take_over(origin: Path, codes: Sequence[str], folder: Path) -> Tokenizer:
    tokenizer = Tokenizer.load(origin)
    missing = set(codes) - tokenizer.language_tags.keys()
    if missing and (len(codes) > 1 or tokenizer.language_tags):
        raise TrainingError(f"{origin}: the tokenizer to reuse has no tag for {', '.join(sorted(missing))}")
    if origin.resolve() != folder.resolve():
        for file in (SETTINGS_FILE, SHARED_FILE, SOURCE_FILE, TARGET_FILE):
            (folder / file).unlink(missing_ok=True)
            if (origin / file).exists():
                shutil.copyfile(origin / file, folder / file)
    return Tokenizer.load(folder)


def _sample(pairs: Iterable[tuple[str, str]], settings: TokenizerSettings, limit: int) -> Sides:
    """A uniform sample of prepared pairs, at most `limit` of them held (reservoir sampling)."""
    generator = random.Random(_SAMPLE_SEED)  # noqa: S311  nothing secret
    kept: list[tuple[str, str]] = []
    for number, pair in enumerate(pairs, start=1):
        place = len(kept) if number <= limit else generator.randrange(number)
        if place == len(kept):
            kept.append(pair)
        elif place < limit:
            kept[place] = pair
    if not kept:
        raise CorpusError("no sentence is left to learn a vocabulary from")
    return Sides([settings.prepare(pair[0]) for pair in kept], [settings.prepare(pair[1]) for pair in kept])


def _train(path: Path, sentences: Sequence[str], config: VocabularyConfig, tags: Iterable[str]) -> None:
    """Run SentencePiece in one thread, as its result depends on how many there are."""
    tags = list(tags)
    arguments = {
        "model_type": config.kind,
        "vocab_size": _vocabulary_size(sentences, config, len(tags)),
        "hard_vocab_limit": config.kind in ("unigram", "bpe"),
        "character_coverage": config.character_coverage,
        "byte_fallback": config.byte_fallback and config.kind in ("unigram", "bpe"),
        "control_symbols": tags,
        "pad_id": PAD_ID,
        "unk_id": UNK_ID,
        "bos_id": BOS_ID,
        "eos_id": EOS_ID,
        # Unicode is normalised before; SentencePiece's own rules would change full-width forms.
        "normalization_rule_name": "identity",
        "num_threads": 1,
        "max_sentence_length": 1 << 20,
        "minloglevel": 2,
    }
    try:
        with path.open("wb") as file:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(sentences), model_writer=file, **arguments
            )
    except (RuntimeError, OSError) as error:
        path.unlink(missing_ok=True)
        raise CorpusError(_explained(error, config)) from error


def _vocabulary_size(sentences: Iterable[str], config: VocabularyConfig, num_tags: int) -> int:
    if config.kind != "word":
        return config.size
    counts = Counter(word for sentence in sentences for word in sentence.split())
    frequent = sum(count >= config.minimum_frequency for count in counts.values())
    return min(config.size, frequent + _NUM_SPECIAL + num_tags)


def _explained(error: Exception, config: VocabularyConfig) -> str:
    reason = " ".join(str(error).split())
    return f"no {config.kind} vocabulary of size {config.size} can be learned from this text ({reason})"
