"""The Triton kernels of a decoder step on a GPU, each with its reference in PyTorch.

    choice      whether a device uses them
    kernels     the kernels themselves; the only module that needs Triton
    attention   attention of one query a row by block tables
    norm        the addition to the residual stream and the norm after it

A kernel is an operator of PyTorch, so that a recording, a profiler or a test sees one operator for it.
"""
