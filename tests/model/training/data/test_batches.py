import gc
import json
import threading
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from model.errors import ConfigError, CorpusError
from model.training.config.data import BatchConfig, CleaningConfig
from model.training.data.batches import Batch, BatchStream, Prefetcher
from model.training.data.dataset import prepare
from model.training.data.token_store import PairDataset
from tests.model.training.parallel_text import tokenizer_of, write_corpus

PAD, BOS, EOS = 0, 2, 3
CONFIG = BatchConfig(max_tokens=600, prefetch=3)


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


def rows(ids: Tensor) -> list[list[int]]:
    return [[token for token in row if token != PAD] for row in ids.tolist()]


def test_targets_are_shifted_by_one_and_padded(dataset: PairDataset) -> None:
    with stream(dataset) as batches:
        for batch in islice(batches, batches.num_batches()):
            assert batch.labels_NT.dtype == batch.source_NS.dtype == torch.int64
            assert batch.decoder_input_NT.shape == batch.labels_NT.shape
            for fed, said in zip(rows(batch.decoder_input_NT), rows(batch.labels_NT), strict=True):
                assert fed == [BOS, *said[:-1]]
                assert said.index(EOS) == len(said) - 1
            assert torch.equal(batch.decoder_input_NT == PAD, batch.labels_NT == PAD)
            assert batch.num_target_tokens == int((batch.labels_NT != PAD).sum())
            assert batch.num_source_tokens == int((batch.source_NS != PAD).sum())


def test_an_epoch_has_every_directed_pair_once(dataset: PairDataset) -> None:
    with stream(dataset) as batches:
        epoch = list(islice(batches, batches.num_batches()))
        following = next(batches)
    pairs = [
        pair for batch in epoch for pair in zip(rows(batch.source_NS), rows(batch.labels_NT), strict=True)
    ]
    everything = np.arange(len(dataset))
    sources, targets = dataset.source_rows(everything), dataset.target_rows(everything)
    stored = zip(*(rows(torch.from_numpy(side.padded(PAD))) for side in (sources, targets)), strict=True)
    assert sorted(pairs) == sorted(stored)
    assert [batch.index for batch in epoch] == list(range(len(epoch)))
    assert (following.epoch, following.index) == (1, 0)


def test_decoder_start_can_be_another_token(dataset: PairDataset) -> None:
    batch = next(stream(dataset, decoder_start_id=EOS))
    assert set(batch.decoder_input_NT[:, 0].tolist()) == {EOS}


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


def test_position_can_be_set_back_on_a_running_stream(dataset: PairDataset) -> None:
    with stream(dataset) as batches:
        first = taken(batches, 2)
        state = batches.state_dict()
        following = taken(batches, 5)
        batches.load_state_dict(state)
        assert taken(batches, 5) == following
        assert following[0] != first[0]


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


@pytest.mark.parametrize("world_size", [2, 3, 7])
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


def test_another_number_of_processes_goes_on_at_the_same_place(dataset: PairDataset) -> None:
    alone, shared = stream(dataset), stream(dataset, rank=0, world_size=2)
    taken(alone, 4)
    shared.load_state_dict(alone.state_dict())
    assert content(next(shared)) == content(next(alone))


def test_no_batch_is_over_its_budget(dataset: PairDataset) -> None:
    batches = stream(dataset)
    for batch in islice(batches, batches.num_batches()):
        assert batch.source_NS.numel() + batch.labels_NT.numel() <= 600


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


def test_batch_moves_to_a_device(dataset: PairDataset) -> None:
    moved = next(stream(dataset)).to("meta")
    assert moved.source_NS.is_meta
    assert moved.labels_NT.is_meta
    assert moved.index == 0


def test_a_batch_changed_in_place_does_not_change_the_data(dataset: PairDataset, tmp_path: Path) -> None:
    first, again = stream(dataset), stream(dataset)
    next(first).labels_NT.zero_()
    assert int(next(again).labels_NT.sum()) > 0
