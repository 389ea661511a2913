"""ⓓ Tokenises corpora into files, and reuses the files while nothing has changed."""

import dataclasses
import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from model.errors import CorpusError
from model.files import atomic_folder
from model.text.tokenizer import TOKENIZER_FILES, Tokenizer
from model.training.config.sections import AugmentationConfig, CleaningConfig, CorpusConfig
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
            blocks: Iterable[_Block] = map(_Block.of, chunks)
            parts = folder.with_name(f".{folder.name}.parts")
            if world.size > 1:
                _write_part(blocks, report, fingerprint, parts / str(world.rank))
                world.all_max(0)
                blocks = _joined(parts, report, fingerprint, world.size)
            if world.is_first:
                with atomic_folder(folder) as unfinished:
                    _write(blocks, report, tokenizer, fingerprint, unfinished)
                shutil.rmtree(parts, ignore_errors=True)
            world.all_max(0)
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
    """A chunk as arrays.

    Attributes:
        number: That of the chunk.
        direction: (source, target) codes.
        weight: How often each pair is drawn in an epoch.
        kinds: Number of altered copies by kind.
        sources: Token ids.
        targets: Token ids.
    """

    number: int
    direction: Sequence[str]
    weight: float
    kinds: Mapping[str, int]
    sources: Rows
    targets: Rows

    @classmethod
    def of(cls, chunk: TokenChunk) -> Self:
        rows = (Rows.of([pair[side] for pair in chunk.pairs]) for side in (0, 1))
        return cls(chunk.number, chunk.direction, chunk.weight, Counter(chunk.kinds), *rows)

    def save(self, file: Path) -> None:
        """Write the block into a file of its own."""
        described = np.array(json.dumps(self[:4]))
        np.savez(file, described, *self.sources, *self.targets)

    @classmethod
    def load(cls, file: Path) -> Self:
        """Read what `save` wrote."""
        with np.load(file) as saved:
            described, *arrays = (saved[f"arr_{i}"] for i in range(5))
        number, direction, weight, kinds = json.loads(str(described))
        return cls(number, direction, weight, kinds, Rows(*arrays[:2]), Rows(*arrays[2:]))


def _write_part(blocks: Iterable[_Block], report: CleaningReport, fingerprint: str, folder: Path) -> None:
    """Write what this process tokenised, a file a block, and what it counted."""
    with atomic_folder(folder) as part:
        for place, block in enumerate(blocks):
            block.save(part / f"{block.number:09d}-{place:09d}.npz")
        described = {"fingerprint": fingerprint, "recounted": report.recounted}
        (part / _PART_FILE).write_text(json.dumps(described), encoding="utf-8")


def _joined(parts: Path, report: CleaningReport, fingerprint: str, size: int) -> Iterator[_Block]:
    """The blocks of all parts in the order of their numbers; `report` gets what the other processes counted.

    Raises:
        CorpusError: If a part is made of other text.
    """
    for rank in range(size):
        described = json.loads((parts / str(rank) / _PART_FILE).read_text(encoding="utf-8"))
        if described["fingerprint"] != fingerprint:
            raise CorpusError(f"{parts} is not made of what is here: {_OTHER_FILES}")
        if rank:
            report.recount(described["recounted"], "too_long")
    yield from map(_Block.load, sorted(parts.glob("*/*.npz"), key=lambda file: file.name))


def _write(
    blocks: Iterable[_Block], report: CleaningReport, tokenizer: Tokenizer, fingerprint: str, folder: Path
) -> None:
    """Write token files, section numbers and, last, the index, with the report that `blocks` fill."""
    sections: list[Section] = []
    augmented: Counter[str] = Counter()
    with (
        TokenWriter(folder, SOURCE, tokenizer.source_vocab_size) as sources,
        TokenWriter(folder, TARGET, tokenizer.target_vocab_size) as targets,
        (folder / SECTIONS_FILE).open("wb") as numbers,
    ):
        for block in blocks:
            source, target = block.direction
            section = Section(source_language=source, target_language=target, weight=block.weight)
            if section not in sections:
                sections.append(section)
            sources.append(block.sources)
            targets.append(block.targets)
            of_all = np.full(len(block.sources.lengths), sections.index(section), dtype=SECTION_DTYPE)
            numbers.write(of_all.tobytes())
            augmented.update(block.kinds)
    if report.kept == 0:
        raise CorpusError(f"nothing is left of the corpus after cleaning: {report}")
    index = DatasetIndex(
        fingerprint=fingerprint,
        sections=tuple(sections),
        source_vocab_size=tokenizer.source_vocab_size,
        target_vocab_size=tokenizer.target_vocab_size,
        pad_id=tokenizer.pad_id,
        bos_id=tokenizer.bos_id,
        kept=report.kept,
        dropped=dict(sorted(report.dropped.items())),
        augmented=dict(sorted(augmented.items())),
    )
    write_index(index, folder)
