"""Parallel text on its way to batches: read, cleaned, altered, tokenised, grouped.

A format of corpora belongs in `corpus`, a reason to drop a pair in `cleaning`, an alteration in
`augmentation`, the alignment of words in `lexicon`, the files of token ids in `dataset` and `tokenisation`,
and the order of pairs in `batches`. `preparation` takes all steps for a run.
"""
