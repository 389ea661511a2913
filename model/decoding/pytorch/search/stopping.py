"""⑤ When a beam search has what it wants.

Shapes: N slots, K lanes (beams).
"""

from torch import Tensor

from model.decoding.pytorch.slot_options import OptionRows


def is_settled(
    finished_NK: Tensor,
    num_finished_N: Tensor,
    leading_N: Tensor,
    attainable_N: Tensor,
    top_has_ended_N: Tensor,
    options: OptionRows,
) -> Tensor:
    """Whether each slot's own stop rule says so, (N,).

    A slot is settled
    - by any rule, when no live hypothesis can still enter the n best (`all` has only this one);
    - by `patience`, when patience × K hypotheses, and at least n, have finished and none under way is
      ahead of the best: those that finish first are not always worth most;
    - by `first`, when the best continuation of a step ends in EOS.

    The first cut loses nothing: log-probabilities only fall, the divisor only grows with the length
    and the coverage penalty is at most 0, so that a live hypothesis will score at most its
    log-probability so far over the divisor at the longest length.

    Args:
        finished_NK: Scores of the best finished hypotheses, best first, −inf where there is none.
        num_finished_N: Hypotheses that have finished so far.
        leading_N: The score so far of the best live hypothesis; −inf if none lives.
        attainable_N: The best score that a live hypothesis can still reach; −inf if none lives.
        top_has_ended_N: Whether the best continuation of this step ends in EOS.
        options: Of the N slots.
    """
    wanted_N1 = options.num_hypotheses_N[:, None].clamp(1, finished_NK.shape[1])
    worst_N = finished_NK.gather(1, wanted_N1 - 1).squeeze(1)
    is_enough_N = (num_finished_N >= options.enough_N) & (finished_NK[:, 0] >= leading_N)
    ends_at_first_N = top_has_ended_N & options.stops_at_first_N.bool()
    return (worst_N >= attainable_N) | is_enough_N | ends_at_first_N
