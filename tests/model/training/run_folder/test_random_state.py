import json
import random

import numpy as np
import torch

from model.training.run_folder.state import (
    capture_random_state,
    restore_random_state,
    seed_everything,
    seed_rank,
)


def draws() -> tuple[float, float, float, float, float]:
    return (
        random.random(),
        random.gauss(0, 1),
        float(np.random.random()),
        float(np.random.normal()),
        float(torch.randn(())),
    )


def test_every_generator_goes_on_as_it_would_have() -> None:
    seed_everything(3)
    draws()  # leaves half of a pair of normal draws in the Gaussian generators
    tensors, plain = capture_random_state()
    expected = [draws() for _ in range(3)]
    seed_everything(99)
    restore_random_state(tensors, json.loads(json.dumps(plain)))
    assert [draws() for _ in range(3)] == expected


def test_a_seed_repeats_everything() -> None:
    seed_everything(4)
    first = draws()
    seed_everything(4)
    assert draws() == first
    seed_everything(5)
    assert draws() != first


def test_shares_of_an_update_draw_differently_and_again_the_same() -> None:
    def draw(seed: int, rank: int, step: int) -> float:
        seed_rank(seed, rank, step)
        return float(torch.rand(()))

    shares = [(seed, rank, step) for seed in (1, 2) for rank in (0, 1) for step in (1, 2)]
    draws = [draw(*share) for share in shares]
    assert len(set(draws)) == len(draws)
    assert draws == [draw(*share) for share in shares]
