"""Text in and out: clean-up, documents, token ids, languages; no torch."""
