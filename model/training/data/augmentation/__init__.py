"""Altered copies of training pairs, as users type; synthetic entities; and dropout of pieces.

A new alteration is a function in `alterations`, and a rate in `AugmentationConfig`.
"""
