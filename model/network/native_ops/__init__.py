"""ⓔ Native operators for training on a CPU, which fuse several passes of PyTorch into one.

Each operator computes the same as its reference in PyTorch, which is used for other devices and number types,
under torch.compile, and without the native library.

loading         finds the native library, and gives it PyTorch's threads
attention       attention over whole sentences
projection      Wx + b in bfloat16, and its gradients
residual        dropout, the addition to the stream, layer norm
smoothed_loss   label-smoothed cross entropy
"""
