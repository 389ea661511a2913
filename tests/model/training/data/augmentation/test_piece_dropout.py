import math
from contextlib import closing
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.text.tokenizer import Tokenizer
from model.training.config_sections import BatchConfig, CleaningConfig
from model.training.data.augmentation.piece_dropout import (
    PieceDropout,
    PieceDropouts,
    ScoredPieces,
    VariedRows,
    finer_cuts,
)
from model.training.data.batches import Batch, BatchStream
from model.training.data.dataset import PairDataset, Rows, TokenStore, TokenWriter
from model.training.data.tokenisation import prepare
from tests.model.training.parallel_text import tokenizer_of, write_corpus

UNIGRAM = {4: ("a", -2.0), 5: ("b", -2.5), 6: ("c", -3.1), 7: ("ab", -3.0), 8: ("bc", -3.5), 9: ("abc", -4.2)}
BPE = {4: ("abc", -2.0), 5: ("ab", 0.0), 6: ("bc", -1.0), 7: ("a", -3.0), 8: ("b", -4.0), 9: ("c", -5.0)}


def spelt(pieces: ScoredPieces, ids: tuple[int, ...]) -> list[str]:
    return [pieces[id_][0] for id_ in ids]


def shares(pieces: ScoredPieces, piece: str) -> dict[str, float]:
    id_ = next(id_ for id_, (text, _) in pieces.items() if text == piece)
    return {"|".join(spelt(pieces, ids)): share for ids, share in finer_cuts(pieces)[id_]}


def test_cuts_of_a_unigram_model_are_as_likely_as_their_pieces() -> None:
    weights = {"a|b|c": -7.6, "ab|c": -6.1, "a|bc": -5.5}
    total = sum(math.exp(0.2 * score) for score in weights.values())
    expected = {cut: pytest.approx(math.exp(0.2 * score) / total) for cut, score in weights.items()}
    assert shares(UNIGRAM, "abc") == expected
    assert shares(UNIGRAM, "ab") == {"a|b": 1.0}


def test_merges_of_a_bpe_model_are_undone_from_the_last() -> None:
    """`ab` is merged first, so `abc` is never `a` and `bc`."""
    assert shares(BPE, "abc") == {"ab|c": 0.5, "a|b|c": 0.5}
    assert shares(BPE, "bc") == {"b|c": 1.0}


@settings(max_examples=40)
@given(st.dictionaries(st.text("abc", min_size=1, max_size=8), st.floats(-9, -1), max_size=60))
def test_every_cut_spells_its_piece(scores: dict[str, float]) -> None:
    for pieces in (
        {id_: (piece, score - 0.01) for id_, (piece, score) in enumerate(scores.items())},
        {id_: (piece, -float(id_)) for id_, piece in enumerate(scores)},
    ):
        for id_, cuts in finer_cuts(pieces).items():
            assert sum(cut.probability for cut in cuts) == pytest.approx(1)
            assert len({cut.ids for cut in cuts}) == len(cuts) <= 16
            for cut in cuts:
                assert "".join(spelt(pieces, cut.ids)) == pieces[id_][0]
                assert len(cut.ids) > 1


TOKENS, PAIRS, COUNT = 12, 400, 150
CONFIG = BatchConfig(max_tokens=900, piece_dropout=0.3, target_piece_dropout=0.1, prefetch=3)
ANY_LENGTH = 10**6


def dropout(rate: float = 0.3, seed: int = 5) -> PieceDropout:
    return PieceDropout(UNIGRAM, 10, rate=rate, seed=seed)


@pytest.fixture
def rows() -> Rows:
    """Many rows of the same tokens: special ones, pieces that can be cut, and some that cannot."""
    row = [3, 9, 7, 4, 1, 8, 9, 9, 7, 6, 5, 2]
    return Rows(np.array(row * PAIRS), np.full(PAIRS, TOKENS, dtype=np.int32))


def texts(rows: Rows) -> list[str]:
    ends = np.cumsum(rows.lengths)[:-1]
    spelling = {id_: piece for id_, (piece, _) in UNIGRAM.items()} | {1: "<1>", 2: "<2>", 3: "<3>"}
    return ["".join(spelling[id_] for id_ in part.tolist()) for part in np.split(rows.tokens, ends)]


def test_cut_rows_spell_the_same_text(rows: Rows) -> None:
    varied = dropout().cut(rows, np.arange(PAIRS), 0, ANY_LENGTH)
    assert texts(varied) == texts(rows)
    assert len(varied.tokens) == varied.lengths.sum() > len(rows.tokens)


def test_the_rate_is_the_share_of_pieces_that_are_cut(rows: Rows) -> None:
    only = Rows(np.full(20_000, 7), np.full(2_000, 10, dtype=np.int32))
    for rate in (0.1, 0.7):
        varied = dropout(rate).cut(only, np.arange(2_000), 0, ANY_LENGTH)
        assert (len(varied.tokens) - 20_000) / 20_000 == pytest.approx(rate, rel=0.1)
    whole = dropout(0.0).cut(rows, np.arange(PAIRS), 0, ANY_LENGTH)
    assert whole.tokens.tolist() == rows.tokens.tolist()


def test_a_row_depends_on_seed_epoch_and_pair_alone(rows: Rows) -> None:
    pairs = np.arange(PAIRS)
    first = dropout().cut(rows, pairs, 0, ANY_LENGTH)
    again = dropout().cut(rows, pairs[::-1].copy(), 0, ANY_LENGTH)
    split = [np.split(each.tokens, np.cumsum(each.lengths)[:-1]) for each in (first, again)]
    assert all((one == other).all() for one, other in zip(split[0], split[1][::-1], strict=True))
    assert len({tuple(row.tolist()) for row in split[0]}) > PAIRS / 4
    for other in (dropout(seed=6).cut(rows, pairs, 0, ANY_LENGTH), dropout().cut(rows, pairs, 1, ANY_LENGTH)):
        assert other.tokens.tolist() != first.tokens.tolist()


def test_what_would_be_too_long_stays_whole(rows: Rows) -> None:
    free = dropout().cut(rows, np.arange(PAIRS), 0, ANY_LENGTH)
    held = dropout().cut(rows, np.arange(PAIRS), 0, TOKENS + 2)
    assert free.lengths.max() > TOKENS + 2
    expected = np.where(free.lengths > TOKENS + 2, TOKENS, free.lengths)
    assert held.lengths.tolist() == expected.tolist()


def test_typical_lengths_are_seldom_passed(rows: Rows) -> None:
    unit = dropout()
    typical = unit.typical_lengths(rows)
    lengths = unit.cut(rows, np.arange(PAIRS), 0, ANY_LENGTH).lengths
    assert 0.05 < (lengths > typical).mean() < 0.3
    assert typical[0] - lengths.std() == pytest.approx(lengths.mean(), rel=0.02)


def test_no_plan_is_longer_than_the_longest_sequence(tmp_path: Path) -> None:
    with TokenWriter(tmp_path, "a", 10) as writer:
        writer.append(Rows.of([[9, 9, 9, 9], [7, 5]]))
    store = TokenStore(tmp_path, "a", 10)
    assert VariedRows(store, dropout()).lengths.tolist() == [4, 3]
    assert VariedRows(store, None).rows(np.array([1]), 0).tokens.tolist() == [7, 5]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dropout")
    corpus = write_corpus(folder / "a.tsv", COUNT, bidirectional=True)
    tokenizer_of(corpus, folder / "tokenizer", kind="unigram", size=80, byte_fallback=False)
    prepare([corpus], folder / "tokenizer", CleaningConfig(), folder / "pairs")
    return folder


def stream(folder: Path, config: BatchConfig = CONFIG, rank: int = 0, world_size: int = 1) -> BatchStream:
    tokenizer = Tokenizer.load(folder / "tokenizer")
    dropout = PieceDropouts.of(tokenizer, config, seed=5)
    pairs = PairDataset(folder / "pairs")
    return BatchStream(pairs, config, seed=5, rank=rank, world_size=world_size, dropout=dropout)


def epoch_of(batches: BatchStream) -> list[Batch]:
    with closing(batches):
        return list(islice(batches, batches.num_batches()))


def test_batches_hold_the_same_text_in_other_pieces_within_their_budget(folder: Path) -> None:
    varied, plain = epoch_of(stream(folder)), epoch_of(stream(folder, BatchConfig(max_tokens=900)))
    decode = Tokenizer.load(folder / "tokenizer").decode
    said, expected = (
        sorted(decode(row) for batch in batches for row in batch.labels_NT.tolist())
        for batches in (varied, plain)
    )
    assert said == expected
    assert sum(batch.num_target_tokens for batch in varied) > sum(batch.num_target_tokens for batch in plain)
    for batch in varied:
        assert batch.source_NS.numel() + batch.labels_NT.numel() <= CONFIG.max_tokens
        assert batch.num_source_tokens == int((batch.source_NS != 0).sum())
        assert batch.num_target_tokens == int((batch.labels_NT != 0).sum())


def test_processes_know_how_large_the_batches_of_others_are(folder: Path) -> None:
    with closing(stream(folder)) as alone, closing(stream(folder, rank=1, world_size=2)) as shared:
        for batch, seen in islice(zip(alone, shared, strict=True), alone.num_batches()):
            assert seen.is_remote is (batch.index % 2 == 0)
            assert seen.num_target_tokens == batch.num_target_tokens
            assert seen.labels_NT.shape == batch.labels_NT.shape
