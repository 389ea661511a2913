import math

import torch

from model.decoding.pytorch.slot_options import SlotOptions
from tests.model.decoding.slots import CPU, admitted, option_rows


def test_every_slot_has_its_own_options() -> None:
    rows = option_rows(
        [
            admitted(strategy="sample", seed=2**62 + 1, top_k=3, top_p=0.5, min_p=0.25, temperature=2.0),
            admitted(beam_size=4, patience=2.0, num_hypotheses=3, length_penalty=0.5, min_length=2),
            admitted(stop="first", length_penalty_form="gnmt", no_repeat_ngram_size=2, max_length=7),
        ]
    )
    assert rows.is_sample_N.tolist() == [1, 0, 0]
    assert rows.is_beam_N.tolist() == [0, 1, 1]
    assert rows.seed_N[0].item() == 2**62 + 1
    assert (rows.top_k_N[0], rows.top_p_N[0], rows.min_p_N[0], rows.temperature_N[0]) == (3, 0.5, 0.25, 2.0)
    assert rows.enough_N.tolist()[1:] == [8, math.inf]
    assert rows.num_hypotheses_N.tolist() == [1, 3, 1]
    assert rows.shortest_N.tolist() == [0, 2, 0]
    assert rows.longest_N[2] == 7
    assert rows.stops_at_first_N.tolist() == [0, 0, 1]
    assert rows.ngram_size_N.tolist() == [0, 0, 2]
    assert (rows.length_exponent_N[1], rows.length_scale_N[1], rows.length_scale_N[2]) == (0.5, 1, 6)


def test_the_coldest_temperature_and_the_highest_rank_are_in_their_columns() -> None:
    rows = option_rows([admitted(strategy="sample", temperature=1e-60, top_k=2**63)])
    assert (rows.temperature_N[0].item(), rows.top_k_N[0].item()) == (2.0**-126, 2**31 - 1)


def test_options_of_chosen_slots_and_of_those_that_moved() -> None:
    columns = SlotOptions(3, CPU)
    columns.seat(torch.tensor([2, 0]), [admitted(top_k=7, strategy="sample"), admitted()])
    assert columns.of(torch.tensor([2])).top_k_N.tolist() == [7]
    columns.move(torch.tensor([2]), torch.tensor([0]))
    assert columns.first(1).top_k_N.tolist() == [7]
