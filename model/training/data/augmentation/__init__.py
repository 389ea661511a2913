"""Altered copies of training pairs, as users type, and pairs of single words.

A new alteration is a function in `alterations`, and a rate in `AugmentationConfig`.
"""
