"""ⓓ Batches of padded token ids, in an order that a seed decides and a position resumes."""

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from model.errors import CorpusError
from model.training.config_sections import BatchConfig
from model.training.data.augmentation.piece_dropout import PieceDropouts, VariedRows
from model.training.data.dataset import Indices, Lengths, PairDataset
from model.validators import require, require_integer

Item = TypeVar("Item")

_CPU = torch.device("cpu")
_BUCKETS_PER_DOUBLING = 8
_DOUBLINGS_OF_A_BUCKET = _BUCKETS_PER_DOUBLING.bit_length() - 1
_FORM = 1
"""Version of the order that follows from data, budget and seed; part of its fingerprint."""

_NO_DROPOUT = PieceDropouts()


def plan_epoch(
    source_lengths: Lengths,
    target_lengths: Lengths,
    weights: npt.NDArray[np.float64],
    config: BatchConfig,
    seed: list[int],
    *,
    in_buckets: bool = False,
) -> list[Indices]:
    """Draw pairs, shuffle them, group them by length, and shuffle the groups; deterministic.

    Args:
        source_lengths: Tokens of each pair's source, shape (pairs,).
        target_lengths: Tokens of each pair's target, shape (pairs,).
        weights: How often each pair is drawn, shape (pairs,).
        config: Budget of a batch and size of the pool that is sorted by length.
        seed: Seed of the run, and epoch.
        in_buckets: Whether the budget of a batch is for the widths that `Batch.in_buckets` gives it.

    Returns:
        The indices of each batch's pairs, in the order they are trained on.
    """
    source_widths, target_widths = source_lengths, target_lengths
    if in_buckets:
        source_widths, target_widths = _bucketed(source_lengths), _bucketed(target_lengths)
    generator = np.random.default_rng(seed)
    drawn = generator.permutation(_draw(weights, generator))
    batches: list[Indices] = []
    for start in range(0, len(drawn), config.pool_size):
        pool = drawn[start : start + config.pool_size]
        pool = pool[_length_order(source_lengths[pool], target_lengths[pool])]
        cuts = _cut(source_widths[pool], target_widths[pool], config)
        groups = np.split(pool, cuts)
        batches.extend(groups[place] for place in generator.permutation(len(groups)))
    return batches


def _draw(weights: npt.NDArray[np.float64], generator: np.random.Generator) -> Indices:
    """Each index floor(weight) times, and once more with the probability of the fractional part."""
    whole = np.floor(weights)
    times = (whole + (generator.random(len(weights)) < weights - whole)).astype(np.int64)
    if not times.any():
        times[generator.integers(len(times))] = 1  # no epoch is empty
    return np.repeat(np.arange(len(weights)), times)


def _length_order(source_lengths: Lengths, target_lengths: Lengths) -> Indices:
    """Order in which adjacent pairs have similar source and similar target lengths.

    Sources are put into buckets whose width grows with their length. Inside a bucket pairs are sorted by
    target length, ascending in one bucket and descending in the next, so that no batch combines extremes.
    """
    buckets = np.floor(np.log2(source_lengths) * _BUCKETS_PER_DOUBLING).astype(np.int64)
    direction = np.where(buckets % 2 == 0, 1, -1)
    return np.lexsort((source_lengths, target_lengths * direction, buckets))


def _bucketed(lengths: Lengths) -> Lengths:
    """`bucketed` of each length, and at most the longest."""
    longest = int(lengths.max())
    return np.array([min(bucketed(size), longest) for size in range(longest + 1)], np.int32)[lengths]


def _cut(source_lengths: Lengths, target_lengths: Lengths, config: BatchConfig) -> list[int]:
    """Start of each batch except the first, if every batch is filled to its budget."""
    cuts: list[int] = []
    start = longest_source = longest_target = 0
    for place, (source, target) in enumerate(
        zip(source_lengths.tolist(), target_lengths.tolist(), strict=True)
    ):
        longest_source, longest_target = max(longest_source, source), max(longest_target, target)
        size = place - start + 1
        too_large = config.max_sentences is not None and size > config.max_sentences
        if size > 1 and (too_large or size * (longest_source + longest_target) > config.max_tokens):
            cuts.append(place)
            start, longest_source, longest_target = place, source, target
    return cuts


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Sentence pairs ready for the network; all ids are int64, padded at the end.

    A batch of another process has numbers and shapes only: its tensors are on the `meta` device.

    Attributes:
        source_NS: [tag], pieces, EOS of each source.
        decoder_input_NT: Decoder start, then the labels without their last token: teacher forcing.
        labels_NT: Pieces, EOS of each target.
        num_pairs: Without rows of padding.
        num_source_tokens: Without padding.
        num_target_tokens: Without padding.
        epoch: Counted from 0.
        index: Position in the epoch, counted from 0.
    """

    source_NS: Tensor
    decoder_input_NT: Tensor
    labels_NT: Tensor
    num_pairs: int
    num_source_tokens: int
    num_target_tokens: int
    epoch: int
    index: int

    @property
    def is_remote(self) -> bool:
        """Returns whether another process works on it."""
        return self.labels_NT.is_meta

    def to(self, device: torch.device | str) -> Self:
        """The batch on a device; the copy of pinned memory is asynchronous."""
        return self if self.is_remote else self._each(lambda ids: ids.to(device, non_blocking=True))

    def pin_memory(self) -> Self:
        """The batch in page-locked memory."""
        return self._each(Tensor.pin_memory)

    def in_buckets(self, pad_id: int, longest_source: int, longest_target: int, config: BatchConfig) -> Self:
        """The batch with more padding, in one of few shapes: a GPU's libraries plan their work by shape.

        Args:
            pad_id: Fills rows, and further rows.
            longest_source: Most tokens of a source; positions may be learned up to there.
            longest_target: Most tokens of a target.
            config: The budget, which the padded batch keeps as the batch did.
        """
        rows, source, target = self.num_pairs, self.source_NS.shape[1], self.labels_NT.shape[1]
        wide_source, wide_target = (
            min(bucketed(source), longest_source),
            min(bucketed(target), longest_target),
        )
        if rows * (wide_source + wide_target) <= config.max_tokens:  # a long pair alone may have no room
            source, target = wide_source, wide_target
        wanted = bucketed(rows)
        most = min(config.max_tokens // (source + target), config.max_sentences or wanted)
        height = min(wanted, most)

        def pad(ids: Tensor, width: int) -> Tensor:
            return functional.pad(ids, (0, width - ids.shape[1], 0, height - rows), value=pad_id)

        return replace(
            self,
            source_NS=pad(self.source_NS, source),
            decoder_input_NT=pad(self.decoder_input_NT, target),
            labels_NT=pad(self.labels_NT, target),
        )

    def _each(self, change: Callable[[Tensor], Tensor]) -> Self:
        return replace(
            self,
            source_NS=change(self.source_NS),
            decoder_input_NT=change(self.decoder_input_NT),
            labels_NT=change(self.labels_NT),
        )


def bucketed(size: int) -> int:
    """The smallest of 1…16, 18, 20…32, 36, 40…64, 72… that is at least `size`; an eighth more at most."""
    step = 1 << max(0, (size - 1).bit_length() - 1 - _DOUBLINGS_OF_A_BUCKET)
    return -(-size // step) * step


class Prefetcher(Iterator[Item]):
    """Iterates over `source` in a background thread, `depth` items ahead of its user.

    An error of the source is raised in place of the item, and ends the iteration.
    """

    def __init__(self, source: Iterator[Item], depth: int) -> None:
        self._source = source
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="dragoman-prefetch")
        self._ahead = deque(self._executor.submit(next, source) for _ in range(depth))

    def __next__(self) -> Item:
        if not self._ahead:
            raise StopIteration
        self._ahead.append(self._executor.submit(next, self._source))
        try:
            return self._ahead.popleft().result()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Drop the items ahead and end the thread; a second call does nothing."""
        self._ahead.clear()
        self._executor.shutdown(cancel_futures=True)


class BatchStream(Iterator[Batch]):
    """Endless batches, epoch after epoch, on the device where they are needed.

    The order depends on (seed, epoch) alone, and on whether a GPU needs the batches, whose padding there is
    part of the budget. Where several processes train together, each stream yields
    every batch, but only the shapes and token counts of those that other processes work on, so that the
    processes together train on exactly what one process would. `state_dict` counts the batches that were
    yielded, not those that were prefetched.

    Args:
        dataset: Pairs to draw, each as often as the weight of its corpus says.
        config: Token budget of a batch.
        seed: Seed of the order.
        rank: This process among `world_size`; it works on every `world_size`-th batch of an epoch.
        world_size: Processes that share an epoch.
        dropout: Varies the segmentation into pieces from epoch to epoch. Batches are planned with the
            lengths that it may give, and stay within their budget.
        device: Where batches are needed; they reach a GPU from page-locked memory.

    Raises:
        ConfigError: If the longest pair exceeds the budget, or the rank is not below `world_size`.
    """

    def __init__(
        self,
        dataset: PairDataset,
        config: BatchConfig,
        *,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
        dropout: PieceDropouts = _NO_DROPOUT,
        device: torch.device = _CPU,
    ) -> None:
        require_integer("world_size", world_size, 1)
        require_integer("rank", rank, 0, world_size - 1)
        self._epochs = _Epochs(
            dataset,
            config,
            seed=seed,
            rank=rank,
            world_size=world_size,
            dropout=dropout,
            is_for_gpu=device.type == "cuda",
        )
        self._device = device
        self._depth = config.prefetch * world_size  # only every `world_size`-th batch has tensors here
        self._epoch = self._next_index = 0
        self._running: Iterator[Batch] | None = None

    def __next__(self) -> Batch:
        if self._running is None:
            self._running = self._start()
        batch = next(self._running)
        self._epoch, self._next_index = batch.epoch, batch.index + 1
        return batch.to(self._device)

    @property
    def epochs(self) -> float:
        """Passes over the data that were yielded, with the fraction of the current one."""
        return self._epoch + self._next_index / self.num_batches()

    def num_batches(self) -> int:
        """Number of batches of the current epoch in all processes."""
        return len(self._epochs.plan(self._epoch))

    def state_dict(self) -> dict[str, int | str]:
        """The exact position, for JSON."""
        return {"epoch": self._epoch, "batch": self._next_index, "order": self._epochs.fingerprint}

    def load_state_dict(self, state: Mapping[str, int | str]) -> None:
        """Continue at a position of a stream over the same data in the same order.

        Raises:
            CorpusError: If the data, the batch budget, the seed or the kind of device has changed.
        """
        if state["order"] != self._epochs.fingerprint:
            raise CorpusError(
                "cannot resume: the corpus, its cleaning, the tokenizer, the batch settings, "
                "the seed or the kind of device has changed since"
            )
        self.close()
        self._epoch, self._next_index = int(state["epoch"]), int(state["batch"])

    def close(self) -> None:
        """End the background thread; a further iteration continues at the same position."""
        if isinstance(self._running, Prefetcher):
            self._running.close()
        self._running = None

    def _start(self) -> Iterator[Batch]:
        batches = self._epochs.batches_from(self._epoch, self._next_index)
        return Prefetcher(batches, self._depth) if self._depth else batches


class _Epochs:
    """Plans the epochs of a run, the same in each of its processes, and makes the batches; thread-safe.

    The thread that prefetches uses this object, not the stream, which it would keep alive.

    Attributes:
        fingerprint: Checksum of everything that the order depends on.
    """

    def __init__(
        self,
        dataset: PairDataset,
        config: BatchConfig,
        *,
        seed: int,
        rank: int,
        world_size: int,
        dropout: PieceDropouts,
        is_for_gpu: bool,
    ) -> None:
        self._sources = VariedRows(dataset.sources, dropout.source)
        self._targets = VariedRows(dataset.targets, dropout.target)
        longest = int((self._sources.lengths + self._targets.lengths).max())
        needed = f"at least {longest}, which the longest pair takes"
        require(longest <= config.max_tokens, "batches.max_tokens", needed, config.max_tokens)
        budget = [config.max_tokens, config.max_sentences, config.pool_size]
        rates = [rate for rate in (config.piece_dropout, config.target_piece_dropout) if rate]
        padding = ["in buckets"] * is_for_gpu
        order = json.dumps([dataset.index.fingerprint, budget, seed, _FORM, *rates, *padding])
        self.fingerprint = hashlib.sha256(order.encode()).hexdigest()
        self.plan = lru_cache(maxsize=2)(self._plan)
        self._longest = int(self._sources.lengths.max()), int(self._targets.lengths.max())
        self._weights, self._config, self._seed = dataset.weights, config, seed
        self._decoder_start_id, self._pad_id = dataset.index.bos_id, dataset.index.pad_id
        self._rank, self._world_size, self._is_for_gpu = rank, world_size, is_for_gpu

    def _plan(self, epoch: int) -> list[Indices]:
        lengths = self._sources.lengths, self._targets.lengths
        seed = [self._seed, epoch]
        return plan_epoch(*lengths, self._weights, self._config, seed, in_buckets=self._is_for_gpu)

    def batches_from(self, epoch: int, first: int) -> Iterator[Batch]:
        """Batches from number `first` of an epoch on, without end."""
        for current in count(epoch):
            groups = self.plan(current)
            for index in range(first if current == epoch else 0, len(groups)):
                is_own = index % self._world_size == self._rank
                batch = (self._batch if is_own else self._outline)(groups[index], current, index)
                yield self._for_gpu(batch) if self._is_for_gpu else batch

    def _batch(self, pairs: Indices, epoch: int, index: int) -> Batch:
        """Pads ids and shifts targets."""
        sources, targets = self._sources.rows(pairs, epoch), self._targets.rows(pairs, epoch)
        labels_NT = targets.padded(self._pad_id)
        decoder_input_NT = np.full_like(labels_NT, self._decoder_start_id)
        decoder_input_NT[:, 1:] = labels_NT[:, :-1]
        # In shorter rows the shift leaves EOS where the label is padding; turn it into padding.
        decoder_input_NT[:, 1:][labels_NT[:, 1:] == self._pad_id] = self._pad_id
        return Batch(
            source_NS=torch.from_numpy(sources.padded(self._pad_id)),
            decoder_input_NT=torch.from_numpy(decoder_input_NT),
            labels_NT=torch.from_numpy(labels_NT),
            num_pairs=len(pairs),
            num_source_tokens=len(sources.tokens),
            num_target_tokens=len(targets.tokens),
            epoch=epoch,
            index=index,
        )

    def _outline(self, pairs: Indices, epoch: int, index: int) -> Batch:
        """A batch that another process works on."""
        sources, targets = self._sources.lengths_of(pairs, epoch), self._targets.lengths_of(pairs, epoch)
        labels_NT = torch.empty(len(pairs), int(targets.max()), dtype=torch.int64, device="meta")
        return Batch(
            source_NS=torch.empty(len(pairs), int(sources.max()), dtype=torch.int64, device="meta"),
            decoder_input_NT=labels_NT,
            labels_NT=labels_NT,
            num_pairs=len(pairs),
            num_source_tokens=int(sources.sum()),
            num_target_tokens=int(targets.sum()),
            epoch=epoch,
            index=index,
        )

    def _for_gpu(self, batch: Batch) -> Batch:
        padded = batch.in_buckets(self._pad_id, *self._longest, self._config)
        return padded if padded.is_remote else padded.pin_memory()
