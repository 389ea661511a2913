"""ⓒ Trains the tokenizer, one or two SentencePiece models, or copies an existing one."""

import io
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import sentencepiece

from model.errors import CorpusError, TrainingError
from model.text.tokenizer import (
    SHARED_FILE,
    SOURCE_FILE,
    TARGET_FILE,
    TOKENIZER_FILES,
    Tokenizer,
    TokenizerSettings,
    language_tags,
)
from model.training.config_sections import VocabularyConfig
from model.training.data.cleaning import CleaningReport, named_counts

_SPECIAL_IDS = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3}
_SAMPLE_SEED = 1

_SizeField = Literal["size", "target_size"]


def train_tokenizer(
    pairs: Iterable[tuple[str, str]],
    config: VocabularyConfig,
    *,
    target_languages: Iterable[str],
    folder: Path,
    report: CleaningReport | None = None,
) -> Tokenizer:
    """Train or copy a tokenizer, and write its files; equal input gives equal files.

    Args:
        pairs: (source, target) sentences; a bidirectional corpus gives both orders. Streamed, and not read if
            `config.reuse` names a folder.
        config: Kind and size.
        target_languages: Codes of all target languages. Several make language tags, which become control
            symbols of the source side.
        folder: Created if missing; tokenizer files in it are replaced.
        report: Counts of the cleaning of `pairs`, for the message if no pair is left.

    Returns:
        The tokenizer, loaded from the folder.

    Raises:
        CorpusError: If there is no sentence, or too little text for a vocabulary of this size.
        TokenizerError: If the folder to reuse holds no tokenizer.
        TrainingError: If the tokenizer to reuse is an imported model's or lacks a language tag, or if files
            cannot be written.
    """
    codes = sorted(set(target_languages))
    if config.reuse is not None:
        made = _reused(Path(config.reuse), codes)
    else:
        sample = _sample(pairs, config.max_sentences)
        if not sample:
            reason = f"; dropped: {named_counts(report.dropped)}" if report else ""
            raise CorpusError(f"no sentence is left to learn a vocabulary from{reason}")
        made = _learn(sample, config, language_tags(codes) if len(codes) > 1 else {})
    try:
        _write(made, folder)
    except OSError as error:
        raise TrainingError(f"{folder}: the tokenizer cannot be written ({error})") from error
    return Tokenizer.load(folder)


class _Files(NamedTuple):
    settings: TokenizerSettings
    models: dict[str, bytes]


def _write(files: _Files, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in TOKENIZER_FILES:
        (folder / name).unlink(missing_ok=True)
    for name, content in files.models.items():
        (folder / name).write_bytes(content)
    files.settings.save(folder)


def _reused(origin: Path, codes: Sequence[str]) -> _Files:
    tokenizer = Tokenizer.load(origin)
    if tokenizer.settings.is_imported:
        raise TrainingError(f"{origin}: the tokenizer of an imported model cannot be trained with")
    missing = set(codes) - tokenizer.language_tags.keys()
    if missing and (len(codes) > 1 or tokenizer.language_tags):
        raise TrainingError(f"{origin}: the tokenizer to reuse has no tag for {', '.join(sorted(missing))}")
    return _Files(tokenizer.settings, {name: (origin / name).read_bytes() for name in tokenizer.model_files})


def _learn(sample: Sequence[tuple[str, str]], config: VocabularyConfig, tags: dict[str, str]) -> _Files:
    settings = TokenizerSettings(
        tags=tags,
        lowercase=config.lowercase,
        separate_punctuation=config.separate_punctuation,
        space_after_marks=config.space_after_marks,
    )
    if config.shared:
        return _Files(settings, {SHARED_FILE: _model(_prepared(_both_sides(sample), settings), config, tags)})
    sources = _prepared((source for source, _ in sample), settings)
    targets = _prepared((target for _, target in sample), settings)
    target_field: _SizeField = "size" if config.target_size is None else "target_size"
    target_model = _model(targets, config, {}, size_field=target_field)
    return _Files(settings, {SOURCE_FILE: _model(sources, config, tags), TARGET_FILE: target_model})


def _both_sides(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Both sentences of each pair; a pair and its reverse (of a bidirectional corpus) count once."""
    times: dict[tuple[str, str], int] = {}
    for pair, count in Counter(pairs).items():
        undirected = (min(pair), max(pair))
        times[undirected] = max(times.get(undirected, 0), count)
    for pair, count in times.items():
        for _ in range(count):
            yield from pair


def _prepared(sentences: Iterable[str], settings: TokenizerSettings) -> list[str]:
    return [settings.prepared(sentence) for sentence in sentences]


def _sample(pairs: Iterable[tuple[str, str]], limit: int) -> list[tuple[str, str]]:
    """A uniform sample of at most `limit` pairs, by reservoir sampling."""
    generator = random.Random(_SAMPLE_SEED)  # noqa: S311  nothing secret
    kept: list[tuple[str, str]] = []
    for number, pair in enumerate(pairs):
        if number < limit:
            kept.append(pair)
        elif (place := generator.randrange(number + 1)) < limit:
            kept[place] = pair
    return kept


def _model(
    sentences: Sequence[str],
    config: VocabularyConfig,
    tags: Mapping[str, str],
    *,
    size_field: _SizeField = "size",
) -> bytes:
    """A SentencePiece model file, trained in one thread because its content depends on their number."""
    is_subword = config.kind in ("unigram", "bpe")
    size: int = getattr(config, size_field)
    least = len(_SPECIAL_IDS) + len(tags)
    if config.kind == "word":
        size = min(size, _num_words(sentences, config) + least)
    arguments: dict[str, Any] = _SPECIAL_IDS | {
        "model_type": config.kind,
        "vocab_size": size,
        "hard_vocab_limit": is_subword,
        # The vocabulary of words is chosen by their frequency, whatever letters they have.
        "character_coverage": 1.0 if config.kind == "word" else config.character_coverage,
        "byte_fallback": config.byte_fallback and is_subword,
        "split_digits": config.split_digits and is_subword,
        "required_chars": config.required_characters if is_subword else "",
        "control_symbols": list(tags.values()),
        # The text is normalised already; SentencePiece's rules would change full-width forms.
        "normalization_rule_name": "identity",
        "num_threads": 1,
        "max_sentence_length": 1 << 20,
        "minloglevel": 2,
    }
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences), model_writer=model, **arguments
        )
    except RuntimeError as error:
        wanted = f"{config.kind} vocabulary of size {getattr(config, size_field)}"
        raise CorpusError(
            f"no {wanted} can be learned from this text: "
            + _translated_error(str(error), f"vocabulary.{size_field}", least=least)
        ) from error
    return model.getvalue()


def _translated_error(reason: str, field: str, *, least: int) -> str:
    """An error of SentencePiece by the names of our settings, or unchanged if it is unknown."""
    text = reason.rsplit("] ", 1)[-1].strip()
    if found := re.search(r"smaller than required_chars\. \d+ vs (\d+)", text):
        lower = "or `vocabulary.character_coverage` lower"
        return f"`{field}` must be at least {found[1]}, {lower}"
    if found := re.search(r"size too high .*<= (\d+)", text):
        return f"`{field}` must be at most {found[1]}"
    return text or f"`{field}` must be above {least}"


def _num_words(sentences: Iterable[str], config: VocabularyConfig) -> int:
    """Number of words that occur at least `minimum_frequency` times."""
    counts = Counter(word for sentence in sentences for word in sentence.split())
    frequent = sum(count >= config.minimum_frequency for count in counts.values())
    if not frequent:
        most = max(counts.values(), default=1)
        raise CorpusError(
            f"`vocabulary.minimum_frequency` must be at most {most}, the count of the most frequent word,"
            f" but is {config.minimum_frequency} instead"
        )
    return frequent
