"""ⓕ The checkpoint folder: everything a trained network needs, as data, written in one step.

    config.json          format version, architecture (TransformerConfig), card (ModelCard)
    model.safetensors    the weights; past 15 MB: model-00001-of-0000N.safetensors + an index
    tokenizer.json …     the tokenizer's settings and SentencePiece models
    shortlist.safetensors  optional: the likely target tokens of each source token
    provenance.json      data, steps, scores, code version, self-test sentences, SHA-256 of each other file

No pickle is ever read, and nothing in a folder is executed. A folder that is incomplete, corrupt,
of another shape, or holds NaN, is refused with a CheckpointError that names the file or tensor.

Promise: a checkpoint written by any release with the same format version stays loadable.
"""
