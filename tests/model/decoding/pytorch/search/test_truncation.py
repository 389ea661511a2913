from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from model.decoding.pytorch.search.independent import truncated_weights
from model.decoding.pytorch.slot_options import Demands
from model.decoding.sentence import Sentence
from tests.model.decoding.slots import admitted, option_rows

SCORES = torch.tensor([[[0.4, 0.3, 0.2, 0.1]]]).log()


def kept(**options: object) -> list[int]:
    weights = weigh([admitted(strategy="sample", **options)])[0].tolist()
    return [token for token, weight in enumerate(weights) if weight > 0]


def weigh(batch: Sequence[Sentence]) -> Tensor:
    scores_NKV, ranks = SCORES.repeat(len(batch), 1, 1), Demands.union(map(Demands.of, batch)).ranks
    return truncated_weights(scores_NKV, option_rows(batch), ranks)[:, 0]


@pytest.mark.parametrize(
    ("options", "tokens"),
    [
        ({}, [0, 1, 2, 3]),
        ({"top_k": 2}, [0, 1]),
        ({"top_k": 9}, [0, 1, 2, 3]),
        ({"top_p": 0.5}, [0, 1]),
        ({"top_p": 0.75}, [0, 1, 2]),
        ({"top_p": 0.01}, [0]),
        ({"min_p": 0.3}, [0, 1, 2]),
        ({"min_p": 1.0}, [0]),
        ({"top_k": 2, "top_p": 0.55}, [0]),  # of the two, the first holds 0.57
        ({"top_p": 0.75, "temperature": 0.1}, [0]),
        ({"top_k": 3, "min_p": 0.6}, [0, 1]),
    ],
)
def test_each_limit_keeps_the_likeliest(options: dict[str, object], tokens: list[int]) -> None:
    assert kept(**options) == tokens


def test_limits_are_each_slots_own() -> None:
    batch = [admitted(strategy="sample", top_k=1), admitted(strategy="sample", temperature=2.0)]
    weights = weigh(batch)
    assert weights[0].tolist() == [1, 0, 0, 0]
    assert weights[1].tolist() == pytest.approx([1, 0.75**0.5, 0.5**0.5, 0.5])
    with_a_nucleus = weigh([*batch, admitted(strategy="sample", top_p=0.5)])
    assert torch.equal(with_a_nucleus[:2], weights)
