"""Texts in, translations out: documents, quality checks, second attempts, and `Translator`.

`quality_checks` decides which translations look broken; `result` decides how they are translated again.
"""
