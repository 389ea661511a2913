"""ⓔ What a training step computes in one pass on a CPU, where plain PyTorch takes many.

Each operator gives what its reference in plain PyTorch gives, which takes over wherever the operator
cannot: on other devices, in other number types, under torch.compile, without the native library.

loading         finds the native library, and lends it PyTorch's threads
derivatives     refuses second derivatives
attention       attention over whole sentences
projection      Wx + b in bfloat16, and its gradients
residual        dropout, the addition to the stream, layer norm
smoothed_loss   label-smoothed cross entropy
"""
