from model.training.validation import EarlyStopping

# ChineseNMT: the loss on held-out text rises from epoch to epoch while BLEU still rises.
LOSSES = [3.93, 3.95, 3.98, 4.02, 4.06, 4.10, 4.13, 4.16, 4.20, 4.24, 4.28]
SCORES = [25.4, 25.5, 25.7, 25.9, 26.0, 26.1, 26.0, 26.1, 25.9, 26.05, 26.0]


def test_a_rising_loss_never_stops_while_bleu_rises_and_patience_counts_from_the_best() -> None:
    stopping = EarlyStopping(patience=5)
    ended_after = None
    for number, (_, score) in enumerate(zip(LOSSES, SCORES, strict=True), start=1):
        is_best = stopping.record(score)
        assert is_best == (number <= 6)  # an equal score, at 8, is no better one
        if stopping.exhausted:
            ended_after = number
            break
    assert ended_after == 6 + 5
    assert stopping.best == 26.1


def test_a_better_score_starts_the_count_again() -> None:
    stopping = EarlyStopping(patience=2)
    for score in (10, 9, 11, 10):
        stopping.record(score)
        assert not stopping.exhausted
    stopping.record(10.5)
    assert stopping.exhausted


def test_no_patience_never_stops() -> None:
    stopping = EarlyStopping(patience=0)
    for score in range(100, 0, -1):
        stopping.record(score)
    assert not stopping.exhausted
