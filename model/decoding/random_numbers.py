"""⑤ The random numbers of sampling: a pure function of seed, lane and position, in every runner. No torch.

No state is kept, so that a sentence draws the same numbers alone and in company, from the first
step or after others, in Python, on a GPU and in the native library.
"""

_MASK = 2**64 - 1
GOLDEN_GAMMA = 0x9E3779B97F4A7C15
FIRST_MULTIPLIER = 0xBF58476D1CE4E5B9
SECOND_MULTIPLIER = 0x94D049BB133111EB
LANE_STRIDE = 2**32
"""Positions that a lane's sequence of numbers holds."""


def uniform(seed: int, lane: int, position: int) -> float:
    """The number in [0, 1) that turns a distribution into the token at this place.

    SplitMix64 (Steele et al. 2014, https://doi.org/10.1145/2660193.2660195): the finaliser of
    seed + (lane · 2³² + position + 1) · γ, modulo 2⁶⁴, of which the upper 24 bits are kept: they fit
    a float32 without rounding.

    Args:
        seed: Of the sentence, 0…2⁶³−1.
        lane: Which of the sentence's draws, from 0.
        position: Tokens produced before this one.
    """
    bits = (seed + (lane * LANE_STRIDE + position + 1) * GOLDEN_GAMMA) & _MASK
    bits = ((bits ^ (bits >> 30)) * FIRST_MULTIPLIER) & _MASK
    bits = ((bits ^ (bits >> 27)) * SECOND_MULTIPLIER) & _MASK
    bits ^= bits >> 31
    return float((bits >> 40) / 2**24)
