"""Texts in, translations out: documents, quality checks, second attempts, and `Translator`.

`tag_placement` sets inline tags in a translation. `quality_checks` decides which translations look broken,
and `result` whether and how they are translated again. `lines` translates the lines of a file, and
`corpus_translation` whole folders, here or on Ray (`ray_corpus`).
"""
