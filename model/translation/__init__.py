"""Texts in, translations out: documents, quality checks, second attempts, and `Translator`."""
