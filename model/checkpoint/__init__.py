"""ⓕ The checkpoint folder: everything a trained network needs, as data, written in one step.

    file                  holds                                                    read and written by
    config.json           format version, architecture (`TransformerConfig`), card   manifest, card
    model.safetensors     the weights; past 15 MB several files and an index         weights, weights_writer
    tokenizer.json …      the tokenizer's settings and SentencePiece models          model.text.tokenizer
    shortlist.safetensors optional: the likely target tokens of each source token    shortlist
    provenance.json       data, steps, scores, self-test sentences, SHA-256 of files manifest, self_test

`folder` reads and writes all of them, `manifest` finds folders, `editing` makes checkpoints from others,
`importing` and `exporting` convert models of other frameworks. `shortlist` also chooses the tokens that a
sentence may produce. A new field of the card is a field of
`card.ModelCard` with a default, listed in `card._OPTIONAL`, as the cards of older checkpoints lack it.

No pickle is ever read, and nothing in a folder is executed. A folder that is incomplete, corrupt,
of another shape, or holds NaN, is refused with a CheckpointError that names the file or tensor.

Promise: a checkpoint written by any release with the same format version stays loadable.
"""
