"""ⓓ Tokenises corpora into files, and reuses the files while nothing has changed."""

import dataclasses
import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Self

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
    Rows,
    Section,
    TokenStore,
    TokenWriter,
    write_index,
)
from model.training.data.tokenisation import TokenChunk, tokenised_chunks
from model.training.distributed.world import SINGLE_PROCESS, World

_FORMAT_VERSION = 1
_PART_FILE = "part.json"
_OTHER_FILES = "the processes see other files"
_NO_COPIES = AugmentationConfig()


def prepare(
    corpora: Sequence[CorpusConfig],
    tokenizer_folder: Path,
    cleaning: CleaningConfig,
    folder: Path,
    *,
    augmentation: AugmentationConfig = _NO_COPIES,
    world: World = SINGLE_PROCESS,
) -> PairDataset:
    """Tokenise corpora into a folder, or open the folder if it holds the same data already.

    Text is streamed: memory grows by about 20 bytes per pair (fingerprint, lengths). The folder is written
    atomically. Several processes tokenise a part each, and the first one joins the parts to what a single
    process would have written.

    Args:
        corpora: Corpora to train on.
        tokenizer_folder: Folder of the tokenizer.
        cleaning: Which pairs are dropped.
        folder: Folder of the tokenised pairs; other contents are replaced.
        augmentation: Which altered copies to add.
        world: The processes that prepare the folder, which all of them must see.

    Raises:
        CorpusError: If a corpus cannot be read, ids cannot be written, no pair is left, or the processes see
            other files.
        TokenizerError: If the tokenizer cannot be read.
    """
    tokenizer = Tokenizer.load(tokenizer_folder)
    fingerprint = data_fingerprint(corpora, tokenizer_folder, cleaning, augmentation)
    is_missing = _finished(folder, fingerprint) is None
    if world.all_max(int(is_missing)):
        report = CleaningReport()
        chunks = tokenised_chunks(
            corpora, tokenizer, cleaning, report, augmentation, rank=world.rank, size=world.size
        )
        try:
            if world.size == 1:
                with atomic_folder(folder) as unfinished:
                    _write(map(_Block.of, chunks), report, tokenizer, fingerprint, unfinished)
            else:
                _write_together(chunks, report, tokenizer, fingerprint, folder, world)
        except OSError as error:
            raise CorpusError(f"{folder}: tokenised text cannot be written ({error.strerror})") from error
    if (finished := _finished(folder, fingerprint)) is None:
        raise CorpusError(f"{folder} is not made of what is here: {_OTHER_FILES}")
    return finished


def data_fingerprint(
    corpora: Sequence[CorpusConfig],
    tokenizer_folder: Path | None,
    cleaning: CleaningConfig,
    augmentation: AugmentationConfig = _NO_COPIES,
) -> str:
    """SHA-256 of everything that the token ids depend on: contents of the files, not their paths or dates.

    Without a tokenizer it is that of the clean text.

    Raises:
        CorpusError: If a file is missing or cannot be read.
    """
    parts: list[object] = [_FORMAT_VERSION, dataclasses.asdict(cleaning)]
    for corpus in corpora:
        values = dataclasses.asdict(corpus) | {"path": None, "target_path": None}
        parts.append([values, *(_checksum(path) for path in corpus_files(corpus))])
    if augmentation.is_on:  # keeps fingerprints from before augmentation existed
        parts.append([AUGMENTATION_VERSION, dataclasses.asdict(augmentation)])
    files = [tokenizer_folder / name for name in TOKENIZER_FILES] if tokenizer_folder else []
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


class _Block(NamedTuple):
    """A chunk as arrays; `kinds` counts the altered copies."""

    direction: tuple[str, str]
    weight: float
    sources: Rows
    targets: Rows
    kinds: Mapping[str, int]

    @classmethod
    def of(cls, chunk: TokenChunk) -> Self:
        sources, targets = (Rows.of([pair[side] for pair in chunk.pairs]) for side in (0, 1))
        return cls(chunk.direction, chunk.weight, sources, targets, Counter(chunk.kinds))


def _write_together(
    chunks: Iterable[TokenChunk],
    report: CleaningReport,
    tokenizer: Tokenizer,
    fingerprint: str,
    folder: Path,
    world: World,
) -> None:
    """Write the part of this process; the first process then joins all parts in the order of the chunks."""
    parts = folder.with_name(f".{folder.name}.parts")
    with atomic_folder(parts / str(world.rank)) as unfinished:
        _write_part(chunks, report, tokenizer, fingerprint, unfinished)
    world.all_max(0)
    if world.is_first:
        joined = _Parts([parts / str(rank) for rank in range(world.size)], tokenizer, fingerprint)
        for other in joined.recounted[1:]:
            report.recount(other, "too_long")
        with atomic_folder(folder) as unfinished:
            _write(joined.blocks(), report, tokenizer, fingerprint, unfinished)
        shutil.rmtree(parts)
    world.all_max(0)


def _write_part(
    chunks: Iterable[TokenChunk], report: CleaningReport, tokenizer: Tokenizer, fingerprint: str, folder: Path
) -> None:
    described: list[dict[str, object]] = []

    def blocks() -> Iterator[_Block]:
        for chunk in chunks:
            block = _Block.of(chunk)
            described.append(
                {
                    "number": chunk.number,
                    "direction": chunk.direction,
                    "weight": chunk.weight,
                    "pairs": len(chunk.pairs),
                    "kinds": block.kinds,
                }
            )
            yield block

    _write_pairs(blocks(), tokenizer, folder)
    part = {"fingerprint": fingerprint, "recounted": report.recounted, "chunks": described}
    (folder / _PART_FILE).write_text(json.dumps(part), encoding="utf-8")


class _Parts:
    """The parts of all processes.

    Raises:
        CorpusError: If a part is made of other text.
    """

    def __init__(self, folders: Sequence[Path], tokenizer: Tokenizer, fingerprint: str) -> None:
        described = [json.loads((each / _PART_FILE).read_text(encoding="utf-8")) for each in folders]
        if any(each["fingerprint"] != fingerprint for each in described):
            raise CorpusError(f"{folders[0].parent} is not made of what is here: {_OTHER_FILES}")
        self.recounted: list[int] = [each["recounted"] for each in described]
        self._chunks = [each["chunks"] for each in described]
        self._sources = [TokenStore(each, SOURCE, tokenizer.source_vocab_size) for each in folders]
        self._targets = [TokenStore(each, TARGET, tokenizer.target_vocab_size) for each in folders]

    def blocks(self) -> Iterator[_Block]:
        """The chunks of all parts, by their numbers."""
        numbered = ([(chunk["number"], rank) for chunk in part] for rank, part in enumerate(self._chunks))
        ends, places = [0] * len(self._chunks), [iter(part) for part in self._chunks]
        for _, rank in sorted(chain.from_iterable(numbered)):
            chunk = next(places[rank])
            pairs = np.arange(ends[rank], ends[rank] + chunk["pairs"])
            ends[rank] += chunk["pairs"]
            sources, targets = self._sources[rank].rows(pairs), self._targets[rank].rows(pairs)
            yield _Block(tuple(chunk["direction"]), chunk["weight"], sources, targets, chunk["kinds"])


def _write(
    blocks: Iterable[_Block], report: CleaningReport, tokenizer: Tokenizer, fingerprint: str, folder: Path
) -> None:
    """Write token files, section numbers and, last, the index, with the report that `blocks` fill."""
    sections, augmented = _write_pairs(blocks, tokenizer, folder)
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
        dropped=dict(sorted(report.dropped.items())),
        augmented=augmented,
    )
    write_index(index, folder)


def _write_pairs(
    blocks: Iterable[_Block], tokenizer: Tokenizer, folder: Path
) -> tuple[tuple[Section, ...], dict[str, int]]:
    """Write the pairs; returns the sections and the number of altered copies by kind."""
    sections: list[Section] = []
    augmented: Counter[str] = Counter()
    with ExitStack() as files:
        sources = files.enter_context(TokenWriter(folder, SOURCE, tokenizer.source_vocab_size))
        targets = files.enter_context(TokenWriter(folder, TARGET, tokenizer.target_vocab_size))
        numbers = files.enter_context((folder / SECTIONS_FILE).open("wb"))
        for (source_language, target_language), weight, source_rows, target_rows, kinds in blocks:
            section = Section(source_language=source_language, target_language=target_language, weight=weight)
            if section not in sections:
                sections.append(section)
            sources.append(source_rows)
            targets.append(target_rows)
            of_all = np.full(len(source_rows.lengths), sections.index(section), dtype=SECTION_DTYPE)
            numbers.write(of_all.tobytes())
            augmented.update(kinds)
    return tuple(sections), dict(sorted(augmented.items()))
