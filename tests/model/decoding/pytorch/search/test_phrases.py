"""Which continuations of a search with required phrases are left."""

import math

import pytest
import torch

from model.decoding.pytorch.search.phrases import COST_OF_PLACE, ERROR_OF_TOKEN, prune


def left(estimates: list[float], missing: list[int], most: int, size: int) -> list[int]:
    """The places of the continuations that are left, by the definition."""
    best: list[int] = []
    for i in sorted(range(len(estimates)), key=lambda i: -estimates[i]):
        if estimates[i] > -math.inf and sum(missing[j] == missing[i] for j in best) < most:
            best.append(i)
    best = best[:size]

    def is_worse(i: int, j: int) -> bool:
        more = missing[i] - missing[j]
        return estimates[i] + (COST_OF_PLACE if more < 0 else ERROR_OF_TOKEN * more) < estimates[j]

    return [i for i in best if sum(is_worse(i, j) for j in best) < most]


@pytest.mark.parametrize("most", [1, 2, 3])
def test_what_is_left_is_as_defined(most: int) -> None:
    generator = torch.Generator().manual_seed(most)
    estimates_NX = torch.rand(50, 40, generator=generator) * -30
    estimates_NX[torch.rand(50, 40, generator=generator) < 0.2] = -math.inf
    estimates_NX[0] = -math.inf
    missing_NX = torch.randint(0, 7, (50, 40), generator=generator)
    places_NC, is_left_NC = prune(estimates_NX, missing_NX, torch.full((50, 1), most), 12)
    found = [row[mask].tolist() for row, mask in zip(places_NC, is_left_NC, strict=True)]
    expected = [left(*row, most, 12) for row in zip(estimates_NX.tolist(), missing_NX.tolist(), strict=True)]
    assert found == expected
    assert len({len(row) for row in expected}) > 3
