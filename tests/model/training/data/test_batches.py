import gc
import json
import threading
from collections.abc import Iterator
from contextlib import closing
from itertools import count, islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from model.errors import ConfigError, CorpusError
from model.training.config_sections import BatchConfig, CleaningConfig
from model.training.data.batches import Batch, BatchStream, Prefetcher, bucketed, plan_epoch
from model.training.data.dataset import Lengths, PairDataset
from model.training.data.tokenisation import prepare
from tests.model.training.parallel_text import tokenizer_of, write_corpus


def lengths(count: int, seed: int) -> Lengths:
    """Of sentences as they are: many short ones, few long ones."""
    draws = np.random.default_rng(seed).gamma(4, 3, count)
    return (2 + draws).astype(np.int32)


SOURCES = lengths(20_000, 0)
TARGETS = np.maximum(2, SOURCES + np.random.default_rng(1).integers(-3, 4, len(SOURCES))).astype(np.int32)
EVEN = np.ones(len(SOURCES))


def widths_of(side: Lengths, in_buckets: bool) -> Lengths:
    longest = int(side.max())
    return np.array([min(bucketed(n), longest) for n in side.tolist()]) if in_buckets else side


@settings(max_examples=50)
@given(
    count=st.integers(1, 60),
    max_tokens=st.integers(150, 400),
    max_sentences=st.none() | st.integers(1, 9),
    pool_size=st.integers(1, 70),
    seed=st.integers(0, 2**40),
    in_buckets=st.booleans(),
)
def test_every_pair_is_in_one_batch_within_budget(
    count: int, max_tokens: int, max_sentences: int | None, pool_size: int, seed: int, in_buckets: bool
) -> None:
    sources, targets = lengths(count, 1), lengths(count, 2)
    config = BatchConfig(max_tokens=max_tokens, max_sentences=max_sentences, pool_size=pool_size)
    plan = plan_epoch(sources, targets, np.ones(count), config, [seed, 0], in_buckets=in_buckets)
    assert sorted(np.concatenate(plan).tolist()) == list(range(count))
    widths = [widths_of(side, in_buckets) for side in (sources, targets)]
    costs = [len(batch) * sum(side[batch].max() for side in widths) for batch in plan]
    assert max(costs) <= max_tokens
    assert max(map(len, plan)) <= (max_sentences or count)


@pytest.mark.parametrize("max_tokens", [1024, 4096])
def test_little_is_padding_and_long_batches_are_among_short_ones(max_tokens: int) -> None:
    plan = plan_epoch(SOURCES, TARGETS, EVEN, BatchConfig(max_tokens=max_tokens), [0, 0])
    positions = sum(len(batch) * (SOURCES[batch].max() + TARGETS[batch].max()) for batch in plan)
    assert 0.95 < (SOURCES.sum() + TARGETS.sum()) / positions < 1
    longest = np.array([SOURCES[batch].max() for batch in plan])
    halves = np.array_split(longest, 2)
    assert abs(halves[0].mean() - halves[1].mean()) < 0.2 * longest.mean()


def test_same_seed_gives_the_same_batches_and_another_epoch_others() -> None:
    first, same, other, epoch = (
        [batch.tolist() for batch in plan_epoch(SOURCES, TARGETS, EVEN, BatchConfig(), seed)]
        for seed in ([7, 0], [7, 0], [8, 0], [7, 1])
    )
    assert first == same
    assert first != other
    assert first != epoch
    groups, later = ({frozenset(batch) for batch in batches} for batches in (first, epoch))
    assert len(groups & later) < 0.1 * len(groups), "pairs meet others, too"


def test_weights_say_how_often_a_pair_is_drawn() -> None:
    weights = np.repeat([2.0, 0.25, 1.5], [5000, 10_000, 5000])
    plans = [plan_epoch(SOURCES, TARGETS, weights, BatchConfig(), [0, epoch]) for epoch in range(2)]
    draws = [np.bincount(np.concatenate(plan), minlength=len(weights)) for plan in plans]
    for times in draws:
        assert set(times[:5000].tolist()) == {2}
        assert set(times[5000:15_000].tolist()) == {0, 1}
        assert times[5000:15_000].mean() == pytest.approx(0.25, abs=0.02)
        assert set(times[15_000:].tolist()) == {1, 2}
    both = (draws[0][5000:15_000] * draws[1][5000:15_000]).mean()
    assert both == pytest.approx(1 / 16, abs=0.02), "each epoch draws afresh"


def test_no_epoch_is_empty() -> None:
    for epoch in range(20):
        few = np.full(3, 0.001)
        plan = plan_epoch(SOURCES[:3], TARGETS[:3], few, BatchConfig(), [0, epoch])
        assert len(plan) >= 1


PAD, BOS, EOS = 0, 2, 3
CONFIG = BatchConfig(max_tokens=600, prefetch=3)
CUDA = torch.device("cuda")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> PairDataset:
    """300 directed pairs in both directions; about 20 batches."""
    folder = tmp_path_factory.mktemp("batches")
    corpus = write_corpus(folder / "a.tsv", 150, bidirectional=True)
    tokenizer_of(corpus, folder / "tokenizer", kind="word", size=400)
    return prepare([corpus], folder / "tokenizer", CleaningConfig(), folder / "pairs")


def stream(dataset: PairDataset, config: BatchConfig = CONFIG, **values: int) -> BatchStream:
    return BatchStream(dataset, config, **({"seed": 5} | values))  # type: ignore[arg-type]


def content(batch: Batch) -> tuple[object, ...]:
    tensors = (batch.source_NS, batch.decoder_input_NT, batch.labels_NT)
    return (batch.epoch, batch.index, batch.num_source_tokens, *(ids.tolist() for ids in tensors))


def outline(batch: Batch) -> tuple[object, ...]:
    """What every process knows of a batch."""
    numbers = batch.num_source_tokens, batch.num_target_tokens, batch.epoch, batch.index
    return (*numbers, batch.source_NS.shape, batch.decoder_input_NT.shape, batch.labels_NT.shape)


def taken(batches: BatchStream, number: int) -> list[tuple[object, ...]]:
    return [content(batch) for batch in islice(batches, number)]


def epoch_of(dataset: PairDataset) -> list[Batch]:
    with closing(stream(dataset)) as batches:
        return list(islice(batches, batches.num_batches()))


def rows(ids: Tensor) -> list[list[int]]:
    return [[token for token in row if token != PAD] for row in ids.tolist()]


def test_targets_are_shifted_by_one_and_padded(dataset: PairDataset) -> None:
    for batch in epoch_of(dataset):
        assert batch.labels_NT.dtype == batch.source_NS.dtype == torch.int64
        assert batch.decoder_input_NT.shape == batch.labels_NT.shape
        for fed, said in zip(rows(batch.decoder_input_NT), rows(batch.labels_NT), strict=True):
            assert fed == [BOS, *said[:-1]]
            assert said.index(EOS) == len(said) - 1
        assert torch.equal(batch.decoder_input_NT == PAD, batch.labels_NT == PAD)
        assert batch.num_target_tokens == int((batch.labels_NT != PAD).sum())
        assert batch.num_source_tokens == int((batch.source_NS != PAD).sum())


def test_an_epoch_has_every_directed_pair_once(dataset: PairDataset) -> None:
    epoch = epoch_of(dataset)
    assert sorted(pair for batch in epoch for pair in pairs_of(batch)) == stored_pairs(dataset)
    assert [(batch.epoch, batch.index) for batch in epoch] == [(0, index) for index in range(len(epoch))]


def test_sizes_of_buckets_are_few_and_at_most_an_eighth_larger() -> None:
    sizes = [bucketed(size) for size in range(1, 257)]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 16 + 4 * 8
    assert all(size <= wide <= size * 9 / 8 for size, wide in enumerate(sizes, 1))


@pytest.fixture
def without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches for a GPU stay in ordinary memory."""
    monkeypatch.setattr(Batch, "pin_memory", lambda batch: batch)
    monkeypatch.setattr(Batch, "to", lambda batch, _: batch)


def for_a_gpu(dataset: PairDataset, config: BatchConfig = CONFIG, rank: int = 0) -> BatchStream:
    return BatchStream(dataset, config, seed=5, rank=rank, world_size=2, device=CUDA)


@pytest.mark.usefixtures("without_a_gpu")
def test_a_process_with_a_gpu_and_its_neighbour_give_a_batch_one_shape(dataset: PairDataset) -> None:
    one, other = for_a_gpu(dataset), for_a_gpu(dataset, rank=1)
    for own, foreign in islice(zip(one, other, strict=False), one.num_batches()):
        assert own.is_remote is not foreign.is_remote
        assert outline(own) == outline(foreign)


def longest_of(dataset: PairDataset) -> tuple[int, int, int]:
    """Tokens of the longest source, the longest target and the longest pair."""
    sources, targets = dataset.sources.lengths, dataset.targets.lengths
    return int(sources.max()), int(targets.max()), int((sources + targets).max())


def pairs_of(batch: Batch) -> list[tuple[list[int], list[int]]]:
    return list(zip(rows(batch.source_NS), rows(batch.labels_NT), strict=True))


def stored_pairs(dataset: PairDataset) -> list[tuple[list[int], list[int]]]:
    everything = np.arange(len(dataset))
    sides = dataset.sources.rows(everything), dataset.targets.rows(everything)
    sources, targets = (rows(torch.from_numpy(side.padded(PAD))) for side in sides)
    return sorted(zip(sources, targets, strict=True))


@pytest.mark.usefixtures("without_a_gpu")
@pytest.mark.parametrize("max_sentences", [None, 9])
@pytest.mark.parametrize("spare_tokens", [0, 5, 600])
def test_a_gpu_gets_every_pair_in_padded_batches_within_the_budget(
    dataset: PairDataset, spare_tokens: int, max_sentences: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bucketed(size: int) -> int:
        """Coarse, so that these short sentences are padded, too."""
        return -(-size // 4) * 4

    monkeypatch.setattr("model.training.data.batches.bucketed", bucketed)
    longest_source, longest_target, longest_pair = longest_of(dataset)
    config = BatchConfig(max_tokens=longest_pair + spare_tokens, max_sentences=max_sentences)
    seen: list[tuple[list[int], list[int]]] = []
    streams = for_a_gpu(dataset, config), for_a_gpu(dataset, config, rank=1)
    for both in islice(zip(*streams, strict=False), streams[0].num_batches()):
        batch = next(each for each in both if not each.is_remote)
        assert batch.source_NS.numel() + batch.labels_NT.numel() <= config.max_tokens
        assert len(batch.source_NS) <= (max_sentences or bucketed(batch.num_pairs))
        assert batch.decoder_input_NT.shape == batch.labels_NT.shape
        pairs = pairs_of(batch)
        assert pairs[batch.num_pairs :] == [([], [])] * (len(batch.labels_NT) - batch.num_pairs)
        seen += pairs[: batch.num_pairs]
        if batch.num_pairs > 1:
            source, target = (max(map(len, side)) for side in zip(*pairs, strict=True))
            assert batch.source_NS.shape[1] == min(bucketed(source), longest_source)
            assert batch.labels_NT.shape[1] == min(bucketed(target), longest_target)
    assert sorted(seen) == stored_pairs(dataset)


@pytest.mark.parametrize(("max_tokens", "width"), [(35, 17), (36, 18)])
def test_a_long_pair_alone_is_padded_where_the_budget_has_room(max_tokens: int, width: int) -> None:
    ids = torch.ones(1, 17, dtype=torch.int64)
    batch = Batch(
        source_NS=ids,
        decoder_input_NT=ids,
        labels_NT=ids,
        num_pairs=1,
        num_source_tokens=17,
        num_target_tokens=17,
        epoch=0,
        index=0,
    )
    padded = batch.in_buckets(PAD, 99, 99, BatchConfig(max_tokens=max_tokens))
    assert padded.source_NS.shape == padded.labels_NT.shape == padded.decoder_input_NT.shape == (1, width)


@pytest.mark.usefixtures("without_a_gpu")
def test_batches_for_a_gpu_do_not_go_on_where_those_for_a_cpu_stopped(dataset: PairDataset) -> None:
    with pytest.raises(CorpusError, match="kind of device has changed"):
        for_a_gpu(dataset).load_state_dict(stream(dataset).state_dict())


@pytest.mark.parametrize("prefetch", [0, 1, 8])
def test_order_depends_on_the_seed_alone(dataset: PairDataset, prefetch: int) -> None:
    number = 2 * stream(dataset).num_batches()
    config = BatchConfig(max_tokens=600, prefetch=prefetch)
    expected = taken(stream(dataset), number)
    assert taken(BatchStream(dataset, config, seed=5), number) == expected
    assert taken(stream(dataset, seed=6), number) != expected


@pytest.mark.parametrize("prefetch", [0, 3])
@pytest.mark.parametrize("done", [0, 1, 7, "epoch", "epoch + 2"])
def test_resumed_goes_on_as_if_uninterrupted(dataset: PairDataset, prefetch: int, done: int | str) -> None:
    config = BatchConfig(max_tokens=600, prefetch=prefetch)
    epoch = stream(dataset).num_batches()
    done = {"epoch": epoch, "epoch + 2": epoch + 2}.get(str(done), done)
    assert isinstance(done, int)
    uninterrupted = taken(stream(dataset), done + 12)

    before = stream(dataset, config)
    assert taken(before, done) == uninterrupted[:done]
    state = json.loads(json.dumps(before.state_dict()))
    after = stream(dataset, config)
    after.load_state_dict(state)
    assert taken(after, 12) == uninterrupted[done:]


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 6},
        {"config": BatchConfig(max_tokens=700)},
        {"config": BatchConfig(max_tokens=600, max_sentences=5)},
    ],
)
def test_resuming_in_another_order_is_refused(dataset: PairDataset, other: dict[str, object]) -> None:
    state = stream(dataset).state_dict()
    with pytest.raises(CorpusError, match="cannot resume"):
        stream(dataset, **other).load_state_dict(state)  # type: ignore[arg-type]


@pytest.mark.parametrize("world_size", [2, 7])
def test_processes_share_what_one_alone_would_see(dataset: PairDataset, world_size: int) -> None:
    """Over the end of an epoch too, which no number of processes here divides."""
    number = stream(dataset).num_batches() + 5
    whole = list(islice(stream(dataset), number))
    assert not any(batch.is_remote for batch in whole)
    streams = [stream(dataset, rank=rank, world_size=world_size) for rank in range(world_size)]
    for batch, *seen in zip(whole, *(islice(each, number) for each in streams), strict=True):
        (mine,) = (each for each in seen if not each.is_remote)
        assert content(mine) == content(batch)
        assert {outline(each) for each in seen} == {outline(batch)}


def test_neighbours_go_to_different_processes(dataset: PairDataset) -> None:
    """So that an update of three batches, wherever it begins in an epoch, leaves none of three idle."""
    batches = stream(dataset, rank=1, world_size=3)
    mine = [not batch.is_remote for batch in islice(batches, batches.num_batches())]
    assert all(sum(mine[start : start + 3]) == 1 for start in range(len(mine) - 2))


def test_bad_budget_and_rank_are_refused_by_name(dataset: PairDataset) -> None:
    with pytest.raises(ConfigError, match=r"`batches.max_tokens` must be at least .* the longest pair"):
        stream(dataset, BatchConfig(max_tokens=20))
    with pytest.raises(ConfigError, match="`rank`"):
        stream(dataset, rank=2, world_size=2)


def test_the_epochs_that_were_yielded_include_the_fraction_of_the_current_one(dataset: PairDataset) -> None:
    batches = stream(dataset)
    number = batches.num_batches()
    expected = [epoch + (index + 1) / number for epoch in range(2) for index in range(number)]
    assert batches.epochs == 0
    assert [batches.epochs for _ in islice(batches, 2 * number)] == expected


def prefetch_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("dragoman-prefetch")}


def test_prefetched_items_come_in_order_and_end() -> None:
    before = prefetch_threads()
    prefetcher = Prefetcher(iter(range(50)), 3)
    assert list(prefetcher) == list(range(50))
    assert list(prefetcher) == []
    assert prefetch_threads() <= before


def test_a_prefetcher_runs_at_most_its_depth_ahead() -> None:
    taken: list[int] = []
    full = threading.Event()

    def source() -> Iterator[int]:
        for number in count():
            taken.append(number)
            if len(taken) == 4:  # one yielded, three ready
                full.set()
            yield number

    prefetcher = Prefetcher(source(), 3)
    assert next(prefetcher) == 0
    assert full.wait(60)
    assert not threading.Event().wait(0.05)
    assert taken == [0, 1, 2, 3]
    prefetcher.close()
    prefetcher.close()
    assert list(prefetcher) == []


def test_an_error_of_the_source_comes_in_its_place() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise OSError("disk is gone")

    before = prefetch_threads()
    prefetcher = Prefetcher(source(), 4)
    assert next(prefetcher) == 1
    with pytest.raises(OSError, match="disk is gone"):
        next(prefetcher)
    assert list(prefetcher) == []
    assert prefetch_threads() <= before


def test_threads_end_with_their_stream(dataset: PairDataset) -> None:
    before = prefetch_threads()
    closed, dropped = stream(dataset), stream(dataset)
    next(closed)
    next(dropped)
    threads = prefetch_threads() - before
    assert len(threads) == 2
    closed.close()
    del dropped
    gc.collect()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()
