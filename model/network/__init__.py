"""The Transformer in PyTorch: its parts, its parameters and the state of its decoder.

`transformer` is the whole network, `decoder_state` the pool of keys and values that decoding keeps, with its
block tables and the reordering of beams. `layers` has embeddings, attention, feed-forward blocks with their
activations, norms, and initial values; `positions` the positional encodings. A new variant is a value of
`TransformerConfig`, and is computed here and in `model/native/src/`, to which
`model/decoding/native_runner.py` passes it. `quantisation` has the products of int8 weights, and
`parameters` the names and shapes of all. Kernels that replace several operations of PyTorch are in
`native_ops` for training on a CPU, and in `triton_ops` for decoding on a GPU.
"""
