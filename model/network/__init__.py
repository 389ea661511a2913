"""The Transformer in PyTorch: its parts, its parameters and the state of its decoder."""
