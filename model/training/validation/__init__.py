"""Validation during a run: held-out text is translated and scored."""
