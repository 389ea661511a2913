"""How large the batches of a GPU are, by its free memory and the network: pure functions of numbers.

Predictions, not measurements, chose the constants; docs/performance.md has them.
"""

CAPACITY = 256
"""Longest source and translation in a fixed batch."""
_FEWEST_ROWS, _MOST_ROWS = 8, 1024
# A sentence of the usual 24 tokens has 24 positions for its source and at most 92 for each translation.
_POSITIONS_A_ROW = 256
# Logits of a step are float32 and exist a few times: this many are a gigabyte.
_MOST_LOGITS = 2**26
# A reload needs the state of the old and of the new models at once; weights need memory, too.
_STATE_SHARE = 0.4
# With the usual 24 tokens a sentence, rows fill up before tokens do.
_TOKENS_A_ROW = 64
_USUAL_WIDTHS = (1, 4)


def state_bytes(free_bytes: int) -> int:
    """Bytes of decoder state that the models of one GPU may have.

    Args:
        free_bytes: Free memory before any of them is loaded.
    """
    return int(free_bytes * _STATE_SHARE)


def most_positions() -> int:
    """KV slots of an engine with full batches; more would never be used at once."""
    return _MOST_ROWS * _POSITIONS_A_ROW


def rows_for(max_positions: int, vocab_size: int) -> int:
    """Hypotheses that an engine computes at once: a power of two.

    Args:
        max_positions: KV slots of the engine.
        vocab_size: Target vocabulary of the network.
    """
    rows = min(max_positions // _POSITIONS_A_ROW, _MOST_LOGITS // vocab_size, _MOST_ROWS)
    return max(1 << rows.bit_length() - 1 if rows else 0, _FEWEST_ROWS)


def tokens_for(rows: int) -> int:
    """Bound on rows × source tokens of a running batch with so many rows."""
    return rows * _TOKENS_A_ROW


def widths_for(default_rows: int) -> tuple[int, ...]:
    """Hypotheses per sentence of the fixed batches.

    Args:
        default_rows: Hypotheses of the checkpoint's default search.
    """
    return tuple(sorted({*_USUAL_WIDTHS, default_rows}))
