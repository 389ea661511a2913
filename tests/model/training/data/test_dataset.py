from pathlib import Path

import numpy as np
import pytest

from model.training.data.dataset import Rows, TokenStore, TokenWriter

SEQUENCES = [[5, 6, 7], [1], [9, 8], [70_000, 3]]


def written(folder: Path, vocab_size: int) -> TokenStore:
    with TokenWriter(folder, "source", vocab_size) as writer:
        writer.append(Rows.of(SEQUENCES[:3]))
        writer.append(Rows.of([]))
        writer.append(Rows.of(SEQUENCES[3:]))
    return TokenStore(folder, "source", vocab_size)


def test_padded_rows(tmp_path: Path) -> None:
    store = written(tmp_path, 80_000)
    assert (len(store), store.lengths.tolist()) == (4, [3, 1, 2, 2])
    rows = store.rows(np.array([3, 0, 1]))
    assert (rows.tokens.tolist(), rows.lengths.tolist()) == ([70_000, 3, 5, 6, 7, 1], [2, 3, 1])
    padded = rows.padded(pad_id=4)
    assert padded.dtype == np.int64
    assert padded.tolist() == [[70_000, 3, 4], [5, 6, 7], [1, 4, 4]]


def test_cut_file_is_noticed(tmp_path: Path) -> None:
    written(tmp_path, 80_000)
    path = tmp_path / "source.tokens"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ValueError, match="7 ids, not 8"):
        TokenStore(tmp_path, "source", 80_000)
