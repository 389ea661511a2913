"""The C++ library that decodes, and computes operators of training steps, on a CPU without PyTorch.

src/network/    the Transformer's forward pass over a pool of KV slots
src/decoding/   the running batch and its searches
src/kernels/    SIMD kernels: matrix products, activations, attention, layer norm
src/training/   operators of a training step and their gradients
src/api.cpp     the C functions
build           compiles the library, once for each instruction set
shared_weights  passes weights, packed by src/network/loader.h, from one process to others in memory files
binding         selects the library for this processor; declares its functions and the structs of decoding
operators       the structs and functions of training
tensors         the addresses of tensors
"""
