"""What a run writes: its folder, its state, and the checkpoints that it keeps."""
