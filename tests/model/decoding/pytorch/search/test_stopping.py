import math

import torch

from model.decoding.pytorch.search.beam import is_settled
from tests.model.decoding.slots import admitted, option_rows

FINISHED_NK = torch.tensor([[-1.0, -2.0, -math.inf, -math.inf]])


def settled(
    *,
    finished: int = 2,
    leading: float = -9.0,
    attainable: float = -1.5,
    top: bool = False,
    **options: object,
) -> bool:
    found = is_settled(
        FINISHED_NK,
        torch.tensor([finished]),
        torch.tensor([leading]),
        torch.tensor([attainable]),
        torch.tensor([top]),
        option_rows([admitted(**options)]),
    )
    return bool(found)


def test_no_rule_goes_on_when_nothing_better_can_come() -> None:
    for stop in ("patience", "first", "all"):
        assert settled(stop=stop, attainable=-1.0, patience=9.0)
        assert not settled(stop=stop, attainable=-0.9, patience=9.0)
        assert settled(stop=stop, attainable=-math.inf)


def test_all_wanted_hypotheses_must_be_out_of_reach() -> None:
    assert not settled(stop="all", num_hypotheses=2)
    assert settled(stop="all", num_hypotheses=2, attainable=-2.0)
    assert not settled(stop="all", num_hypotheses=3, attainable=-2.5)


def test_patience_counts_finished_hypotheses() -> None:
    often = {"attainable": 0.0, "beam_size": 4}
    assert not settled(finished=3, **often)
    assert settled(finished=4, **often)
    assert not settled(finished=4, patience=1.5, **often)
    assert settled(finished=2, patience=0.5, **often)
    assert not settled(finished=2, patience=0.5, num_hypotheses=3, **often)
    assert not settled(finished=99, stop="all", **often)


def test_patience_does_not_end_while_one_under_way_is_ahead() -> None:
    enough = {"finished": 4, "attainable": 0.0, "beam_size": 4}
    assert not settled(leading=-0.9, **enough)
    assert settled(leading=-1.0, **enough)
    assert settled(leading=-1.0, num_hypotheses=2, **enough)


def test_first_ends_with_the_best_continuation() -> None:
    assert settled(stop="first", attainable=0.0, top=True)
    assert not settled(stop="all", attainable=0.0, top=True)
    assert not settled(stop="patience", attainable=0.0, top=True)
