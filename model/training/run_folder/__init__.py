"""What a run writes: its folder, log and state, the checkpoints that it keeps, and their provenance."""
