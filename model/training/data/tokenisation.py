"""ⓓ Turns clean text of every corpus and direction into files of token ids, and reuses unchanged files."""

import dataclasses
import hashlib
import json
import logging
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import compress, islice
from pathlib import Path
from random import Random
from typing import NamedTuple, Self

import numpy as np

from model.errors import CorpusError
from model.files import atomic_folder
from model.text.tokenizer import TOKENIZER_FILES, Tokenizer
from model.training.config_sections import AugmentationConfig, CleaningConfig, CorpusConfig
from model.training.data.augmentation.alterations import AUGMENTATION_VERSION, Augmenter, Copy
from model.training.data.cleaning import Cleaner, CleaningReport
from model.training.data.corpus import SentencePair, corpus_files, read_pairs
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
from model.training.data.lexicon import MOST_SENTENCES, Segmenter, WordPairs, segments
from model.training.distributed.world import SINGLE_PROCESS, World

logger = logging.getLogger(__name__)

CHUNK_SIZE = 8192
"""Sentence pairs that are tokenised together."""
_FORMAT_VERSION = 1
_DRAWING_SEED = 1
_PART_FILE = "part.json"
_OTHER_FILES = "the processes see other files"
_NO_COPIES = AugmentationConfig()


class TokenPair(NamedTuple):
    """[tag], pieces, EOS of the source; pieces, EOS of the target."""

    source: list[int]
    target: list[int]


class TokenChunk(NamedTuple):
    """Pairs of one corpus in one direction.

    Attributes:
        number: Counts chunks of text; all that is made of one has its number.
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

    def save(self, file: Path) -> None:
        """Write the chunk into a file of its own."""
        described = np.array(json.dumps(self[:4]))
        np.savez(file, described, *self.sources, *self.targets)

    @classmethod
    def load(cls, file: Path) -> Self:
        """Read what `save` wrote."""
        with np.load(file) as saved:
            described, *arrays = (saved[f"arr_{i}"] for i in range(5))
        number, direction, weight, kinds = json.loads(str(described))
        return cls(number, direction, weight, kinds, Rows(*arrays[:2]), Rows(*arrays[2:]))


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
        logger.info("tokenising the %s text", folder.name)
        report = CleaningReport()
        chunks = tokenised_chunks(corpora, tokenizer, cleaning, report, augmentation, world=world)
        try:
            parts = folder.with_name(f".{folder.name}.parts")
            if world.size > 1:
                _write_part(chunks, report, fingerprint, parts / str(world.rank))
                world.all_max(0)
                chunks = _joined(parts, report, fingerprint, world.size)
            if world.is_first:
                with atomic_folder(folder) as unfinished:
                    _write(chunks, report, tokenizer, fingerprint, unfinished)
                    if not report.kept:
                        names = ", ".join(corpus.path for corpus in corpora)
                        raise CorpusError(f"nothing is left of {names} after cleaning: {report}")
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


def _write_part(chunks: Iterable[TokenChunk], report: CleaningReport, fingerprint: str, folder: Path) -> None:
    """Write what this process tokenised, a file a chunk, and what it counted."""
    with atomic_folder(folder) as part:
        for place, chunk in enumerate(chunks):
            chunk.save(part / f"{chunk.number:09d}-{place:09d}.npz")
        described = {"fingerprint": fingerprint, "recounted": report.recounted}
        (part / _PART_FILE).write_text(json.dumps(described), encoding="utf-8")


def _joined(parts: Path, report: CleaningReport, fingerprint: str, size: int) -> Iterator[TokenChunk]:
    """The chunks of all parts in the order of their numbers; `report` gets what the other processes counted.

    Raises:
        CorpusError: If a part is made of other text.
    """
    for rank in range(size):
        described = json.loads((parts / str(rank) / _PART_FILE).read_text(encoding="utf-8"))
        if described["fingerprint"] != fingerprint:
            raise CorpusError(f"{parts} is not made of what is here: {_OTHER_FILES}")
        if rank:
            report.recount_too_long(described["recounted"])
    yield from map(TokenChunk.load, sorted(parts.glob("*/*.npz"), key=lambda file: file.name))


def _write(
    chunks: Iterable[TokenChunk], report: CleaningReport, tokenizer: Tokenizer, fingerprint: str, folder: Path
) -> None:
    """Write token files, section numbers and, last, the index, with the report that `chunks` fill."""
    sections: list[Section] = []
    augmented: Counter[str] = Counter()
    with (
        TokenWriter(folder, SOURCE, tokenizer.source_vocab_size) as sources,
        TokenWriter(folder, TARGET, tokenizer.target_vocab_size) as targets,
        (folder / SECTIONS_FILE).open("wb") as numbers,
    ):
        for chunk in chunks:
            source, target = chunk.direction
            section = Section(source_language=source, target_language=target, weight=chunk.weight)
            if section not in sections:
                sections.append(section)
            sources.append(chunk.sources)
            targets.append(chunk.targets)
            of_all = np.full(len(chunk.sources.lengths), sections.index(section), dtype=SECTION_DTYPE)
            numbers.write(of_all.tobytes())
            augmented.update(chunk.kinds)
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


def clean_corpora(
    corpora: Sequence[CorpusConfig], cleaning: CleaningConfig, report: CleaningReport
) -> Iterator[tuple[CorpusConfig, Iterator[SentencePair]]]:
    """Each corpus with its clean pairs, to be read in order; duplicates are found across corpora."""
    cleaner = Cleaner(cleaning)
    for corpus in corpora:
        pairs = read_pairs(corpus)
        yield corpus, cleaner.clean(pairs, corpus.source_language, corpus.target_language, report)


def directed_sentences(
    corpora: Sequence[CorpusConfig], cleaning: CleaningConfig, report: CleaningReport | None = None
) -> Iterator[tuple[str, str]]:
    """(source, target) sentences of every direction, as often as an epoch draws them, for the vocabulary.

    If all weights are below 1, they are scaled so that the highest is 1. Cleaning is counted in `report`.
    """
    generator = Random(_DRAWING_SEED)  # noqa: S311  nothing secret
    scale = 1 / min(1.0, max(corpus.weight for corpus in corpora))
    for corpus, pairs in clean_corpora(corpora, cleaning, report or CleaningReport()):
        weight = corpus.weight * scale
        for pair in pairs:
            times = int(weight + generator.random())
            for _ in range(times):
                yield from (_in_direction([pair], corpus, direction)[0] for direction in corpus.directions)


def tokenised_chunks(
    corpora: Sequence[CorpusConfig],
    tokenizer: Tokenizer,
    cleaning: CleaningConfig,
    report: CleaningReport,
    augmentation: AugmentationConfig = _NO_COPIES,
    *,
    world: World = SINGLE_PROCESS,
) -> Iterator[TokenChunk]:
    """Token ids of all clean pairs: each chunk of text in one direction, then in the other.

    A pair with a side longer than `cleaning.max_length_tokens` in any direction is dropped in all. Altered
    copies follow their chunk, and pairs of single words follow their corpus.

    Each process of `world` tokenises its share of the chunks and counts what is too long there; the first one
    aligns single words. All of them clean all text, because duplicates are found across it. In the order of
    their numbers, the chunks of all processes are those of one process.
    """
    tokenisation = _Tokenisation(tokenizer, cleaning, augmentation)
    number = 0
    for corpus, pairs in clean_corpora(corpora, cleaning, report):
        texts: list[SentencePair] = []
        while chunk := list(islice(pairs, CHUNK_SIZE)):
            is_own = number % world.size == world.rank
            gives_words = bool(augmentation.words) and world.is_first and len(texts) < MOST_SENTENCES
            if is_own or gives_words:
                plain, fitting = tokenisation.plain(chunk, corpus, number)
                if gives_words:
                    texts.extend(fitting[: MOST_SENTENCES - len(texts)])
                if is_own:
                    report.recount_too_long(len(chunk) - len(fitting))
                    yield from plain
                    yield from tokenisation.copies(fitting, corpus, number)
            number += 1
        if texts:
            yield from tokenisation.words(texts, corpus, number)
        number += 1


class _Tokenisation:
    """Turns chunks of text into chunks of token ids: unaltered, altered, and as single words."""

    def __init__(
        self, tokenizer: Tokenizer, cleaning: CleaningConfig, augmentation: AugmentationConfig
    ) -> None:
        self._tokenizer = tokenizer
        self._max_length = cleaning.max_length_tokens
        self._augmenter = Augmenter(augmentation)
        self._weight_of_words = augmentation.words

    def plain(
        self, pairs: Sequence[SentencePair], corpus: CorpusConfig, number: int
    ) -> tuple[list[TokenChunk], list[SentencePair]]:
        """A chunk for each direction, and the pairs that fit in all directions."""
        encoded = self._encode_directions(pairs, corpus)
        fits = [all(map(self._fits, directed)) for directed in zip(*encoded, strict=True)]
        chunks = [
            _chunk(number, direction, corpus.weight, {}, list(compress(directed, fits)))
            for direction, directed in zip(corpus.directions, encoded, strict=True)
        ]
        return chunks, list(compress(pairs, fits))

    def copies(
        self, pairs: Sequence[SentencePair], corpus: CorpusConfig, number: int
    ) -> Iterator[TokenChunk]:
        """Chunks of altered copies in each direction."""
        for direction in corpus.directions:
            copies = list(self._augmenter.copies(_in_direction(pairs, corpus, direction), *direction))
            if copies:
                yield self._usable(copies, number, direction, corpus.weight)

    def words(self, pairs: Sequence[SentencePair], corpus: CorpusConfig, number: int) -> Iterator[TokenChunk]:
        """Chunks of single words in each direction, with their own weight."""
        forward = corpus.directions[0]
        found = WordPairs(pairs, forward, (self._source_segments(forward[1]), self._target_segments))
        for direction in corpus.directions:
            copies = [Copy("words", pair) for pair in found.directed(reverse=direction != forward)]
            if copies:
                yield self._usable(copies, number, direction, corpus.weight * self._weight_of_words)

    def _encode_directions(
        self, pairs: Sequence[SentencePair], corpus: CorpusConfig
    ) -> list[list[TokenPair]]:
        """The ids of all pairs in each direction."""
        first, *others = corpus.directions
        forward = self._encode(pairs, first)
        return [forward, *(self._encode_backward(forward, pairs, corpus, other) for other in others)]

    def _encode_backward(
        self,
        forward: Sequence[TokenPair],
        pairs: Sequence[SentencePair],
        corpus: CorpusConfig,
        direction: tuple[str, str],
    ) -> list[TokenPair]:
        """The ids of the reverse direction.

        A shared vocabulary reuses the ids, except for tags and texts that a source tokenises differently.
        """
        if not self._tokenizer.is_shared:
            return self._encode(_in_direction(pairs, corpus, direction), direction)
        known = self._tokenizer.language_tags
        tag = [known[direction[1]]] if known else []
        backward = [TokenPair(tag + target, source[len(tag) :]) for source, target in forward]
        others = [
            place for place, pair in enumerate(pairs) if any(map(self._tokenizer.reads_otherwise, pair))
        ]
        again = self._encode(_in_direction([pairs[place] for place in others], corpus, direction), direction)
        for place, pair in zip(others, again, strict=True):
            backward[place] = pair
        return backward

    def _usable(
        self, copies: Sequence[Copy], number: int, direction: tuple[str, str], weight: float
    ) -> TokenChunk:
        """The copies that are short enough, and that the vocabulary can spell."""
        encoded = self._encode([copy.pair for copy in copies], direction)
        usable = [self._fits(pair) and self._can_spell(pair) for pair in encoded]
        kinds = Counter(copy.kind for copy in compress(copies, usable))
        return _chunk(number, direction, weight, kinds, list(compress(encoded, usable)))

    def _encode(self, pairs: Sequence[SentencePair], direction: tuple[str, str]) -> list[TokenPair]:
        tokenizer = self._tokenizer
        sources = tokenizer.encode_batch([pair.source for pair in pairs], target_language=direction[1])
        targets = tokenizer.encode_target_batch([pair.target for pair in pairs])
        return [TokenPair(*sides) for sides in zip(sources, targets, strict=True)]

    def _source_segments(self, target_language: str) -> Segmenter:
        tokenizer = self._tokenizer
        encode = partial(tokenizer.encode_batch, target_language=target_language)
        return lambda texts: [segments(tokenizer.source_pieces(ids)) for ids in encode(texts)]

    def _target_segments(self, texts: Sequence[str]) -> list[list[str]]:
        tokenizer = self._tokenizer
        return [segments(tokenizer.pieces(ids)) for ids in tokenizer.encode_target_batch(texts)]

    def _fits(self, pair: TokenPair) -> bool:
        return max(len(pair.source), len(pair.target)) <= self._max_length

    def _can_spell(self, pair: TokenPair) -> bool:
        unknown = self._tokenizer.unk_id
        has_unknown = unknown in pair.source or unknown in pair.target
        return not has_unknown and self._tokenizer.can_spell(pair.source)


def _chunk(
    number: int,
    direction: tuple[str, str],
    weight: float,
    kinds: Mapping[str, int],
    pairs: Sequence[TokenPair],
) -> TokenChunk:
    sources, targets = (Rows.of([pair[side] for pair in pairs]) for side in (0, 1))
    return TokenChunk(number, direction, weight, kinds, sources, targets)


def _in_direction(
    pairs: Sequence[SentencePair], corpus: CorpusConfig, direction: tuple[str, str]
) -> Sequence[SentencePair]:
    """Pairs in the order of a direction."""
    if direction[0] == corpus.source_language:
        return pairs
    return [SentencePair(pair.target, pair.source) for pair in pairs]
