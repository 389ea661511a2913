"""The random numbers of sampling: a pure function of seed, row and position, in every runner. No torch.

No state is kept, so that a sentence draws the same numbers in any batch, in Python, on a GPU and in the
native library.
"""

_MASK = 2**64 - 1
GOLDEN_GAMMA = 0x9E3779B97F4A7C15
FIRST_MULTIPLIER = 0xBF58476D1CE4E5B9
SECOND_MULTIPLIER = 0x94D049BB133111EB
ROW_STRIDE = 2**32
"""The length of the sequence of numbers of one row."""


def uniform(seed: int, row: int, position: int) -> float:
    """The number in [0, 1) that selects the token of a row at a position from its distribution.

    SplitMix64 (Steele et al. 2014, https://doi.org/10.1145/2660193.2660195): the finaliser of
    seed + (row · 2³² + position + 1) · γ, modulo 2⁶⁴, of which the upper 24 bits are kept: they fit
    a float32 without rounding.

    Args:
        seed: Seed of the sentence, 0…2⁶³−1.
        row: Index of the hypothesis in its sentence, from 0.
        position: Tokens produced before this one.
    """
    bits = (seed + (row * ROW_STRIDE + position + 1) * GOLDEN_GAMMA) & _MASK
    bits = ((bits ^ (bits >> 30)) * FIRST_MULTIPLIER) & _MASK
    bits = ((bits ^ (bits >> 27)) * SECOND_MULTIPLIER) & _MASK
    bits ^= bits >> 31
    return float((bits >> 40) / 2**24)
