"""The Transformer in PyTorch: its parts, its parameters and the state of its decoder.

`layers` has attention, feed-forward blocks with their activations, and norms; `positions` the positional
encodings. A new variant is a value of `TransformerConfig`, and is computed here and in `model/native/src/`.
"""
