"""Whether the process can serve: where it stands, and whether its engines make progress."""
