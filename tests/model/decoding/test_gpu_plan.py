import pytest

from model.decoding import gpu_plan


@pytest.mark.parametrize(
    ("positions", "vocab", "rows"),
    [
        (2**18, 32_000, 1024),
        (2**19, 32_000, 1024),
        (2**18 - 1, 32_000, 512),
        (100_000, 32_000, 256),
        (2**18, 256_000, 256),
        (1_000, 32_000, 8),
    ],
)
def test_rows_are_a_power_of_two_that_state_and_logits_allow(positions: int, vocab: int, rows: int) -> None:
    assert gpu_plan.rows_for(positions, vocab) == rows


def test_full_batches_need_all_positions() -> None:
    assert gpu_plan.rows_for(gpu_plan.most_positions(), 32_000) == 1024
    assert gpu_plan.rows_for(gpu_plan.most_positions() // 2, 32_000) == 512


def test_old_and_new_models_fit_together_during_a_reload() -> None:
    assert 2 * gpu_plan.state_bytes(80 * 2**30) < 80 * 2**30


def test_a_batch_of_usual_sentences_fills_all_rows() -> None:
    assert gpu_plan.tokens_for(512) >= 512 * 24


@pytest.mark.parametrize(("default", "widths"), [(1, (1, 4)), (4, (1, 4)), (5, (1, 4, 5))])
def test_the_default_search_is_among_the_fixed_widths(default: int, widths: tuple[int, ...]) -> None:
    assert gpu_plan.widths_for(default) == widths
