"""② … ⑧ One request's texts: split, encode, decode, rebuild; with pivots, partial results."""
