"""ⓓ Tokenises corpora into files, and reuses the files while nothing has changed."""

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from model.errors import CorpusError
from model.files import atomic_folder
from model.text.tokenizer import TOKENIZER_FILES, Tokenizer
from model.training.config.data import AugmentationConfig, CleaningConfig, CorpusConfig
from model.training.data.augmentation.augmenter import AUGMENTATION_VERSION
from model.training.data.cleaning import CleaningReport
from model.training.data.corpus import corpus_files
from model.training.data.dataset import (
    SECTION_DTYPE,
    SECTIONS_FILE,
    SOURCE,
    TARGET,
    DatasetIndex,
    PairDataset,
    Section,
    TokenWriter,
    write_index,
)
from model.training.data.tokenisation import TokenChunk, tokenised_chunks

_FORMAT_VERSION = 1
_NO_COPIES = AugmentationConfig()


def prepare(
    corpora: Sequence[CorpusConfig],
    tokenizer_folder: Path,
    cleaning: CleaningConfig,
    folder: Path,
    *,
    augmentation: AugmentationConfig = _NO_COPIES,
    writes: bool = True,
) -> PairDataset:
    """Tokenise corpora into a folder, or open the folder if it holds the same data already.

    Text is streamed: memory grows by about 20 bytes per pair (fingerprint, lengths). The folder is written
    atomically.

    Args:
        corpora: Corpora to train on.
        tokenizer_folder: Folder of the tokenizer.
        cleaning: Which pairs are dropped.
        folder: Folder of the tokenised pairs; other contents are replaced.
        augmentation: Which altered copies to add.
        writes: False if another process has just written the folder.

    Raises:
        CorpusError: If a corpus cannot be read, ids cannot be written, or no pair is left; or if `writes` is
            false and the folder holds other data.
        TokenizerError: If the tokenizer cannot be read.
    """
    tokenizer = Tokenizer.load(tokenizer_folder)
    fingerprint = data_fingerprint(corpora, tokenizer_folder, cleaning, augmentation)
    if (finished := _finished(folder, fingerprint)) is not None:
        return finished
    if not writes:
        raise CorpusError(f"{folder} is not made of what is here: the processes see other files")
    report = CleaningReport()
    chunks = tokenised_chunks(corpora, tokenizer, cleaning, report, augmentation)
    try:
        with atomic_folder(folder) as unfinished:
            _write(chunks, report, tokenizer, fingerprint, unfinished)
    except OSError as error:
        raise CorpusError(f"{folder}: tokenised text cannot be written ({error.strerror})") from error
    return PairDataset(folder)


def data_fingerprint(
    corpora: Sequence[CorpusConfig],
    tokenizer_folder: Path,
    cleaning: CleaningConfig,
    augmentation: AugmentationConfig = _NO_COPIES,
) -> str:
    """SHA-256 of everything that the token ids depend on: contents of the files, not their paths or dates.

    Raises:
        CorpusError: If a file is missing or cannot be read.
    """
    parts: list[object] = [_FORMAT_VERSION, dataclasses.asdict(cleaning)]
    for corpus in corpora:
        values = dataclasses.asdict(corpus) | {"path": None, "target_path": None}
        parts.append([values, *(_checksum(path) for path in corpus_files(corpus))])
    if augmentation.is_on:  # keeps fingerprints from before augmentation existed
        parts.append([AUGMENTATION_VERSION, dataclasses.asdict(augmentation)])
    files = [tokenizer_folder / name for name in TOKENIZER_FILES]
    parts.extend([path.name, _checksum(path)] for path in files if path.exists())
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _checksum(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CorpusError(f"{path}: cannot be read ({error.strerror})") from error


def _finished(folder: Path, fingerprint: str) -> PairDataset | None:
    """The dataset in the folder, if it is complete and has the fingerprint."""
    try:
        dataset = PairDataset(folder)
    except CorpusError:
        return None
    return dataset if dataset.index.fingerprint == fingerprint else None


def _write(
    chunks: Iterable[TokenChunk], report: CleaningReport, tokenizer: Tokenizer, fingerprint: str, folder: Path
) -> None:
    """Write token files, section numbers and, last, the index, with the report that `chunks` fill."""
    sections, augmented = _write_pairs(chunks, tokenizer, folder)
    if report.kept == 0:
        raise CorpusError(f"nothing is left of the corpus after cleaning: {report}")
    index = DatasetIndex(
        fingerprint=fingerprint,
        sections=sections,
        source_vocab_size=tokenizer.source_vocab_size,
        target_vocab_size=tokenizer.target_vocab_size,
        pad_id=tokenizer.pad_id,
        bos_id=tokenizer.bos_id,
        kept=report.kept,
        dropped=dict(report.dropped),
        augmented=augmented,
    )
    write_index(index, folder)


def _write_pairs(
    chunks: Iterable[TokenChunk], tokenizer: Tokenizer, folder: Path
) -> tuple[tuple[Section, ...], dict[str, int]]:
    """Write the pairs; returns the sections and the number of altered copies by kind."""
    sections: list[Section] = []
    augmented: Counter[str] = Counter()
    with ExitStack() as files:
        sources = files.enter_context(TokenWriter(folder, SOURCE, tokenizer.source_vocab_size))
        targets = files.enter_context(TokenWriter(folder, TARGET, tokenizer.target_vocab_size))
        numbers = files.enter_context((folder / SECTIONS_FILE).open("wb"))
        for (source_language, target_language), weight, pairs, kinds in chunks:
            section = Section(source_language=source_language, target_language=target_language, weight=weight)
            if section not in sections:
                sections.append(section)
            sources.append([pair.source for pair in pairs])
            targets.append([pair.target for pair in pairs])
            numbers.write(np.full(len(pairs), sections.index(section), dtype=SECTION_DTYPE).tobytes())
            augmented.update(kinds)
    return tuple(sections), dict(augmented)
