"""⑤ Source ids in, hypotheses out: search over the network's cached one-token step.

    engine          which sentences run, when they join, and how many source tokens are encoded at once;
                    results in the order of requests
    sentence        one admitted request: its checks, its length bounds and its random numbers
    runner          the protocol of what steps a running batch; below it is C++ or PyTorch
    factory         which runner drives a network on this machine, and how large its batches are
    device          devices, precisions, CPU count, GPU memory
    native_runner   a network's weights, and the running batch, in the native library
    pytorch/        the running batch in PyTorch; nothing above imports torch

The decoder knows token ids only; texts are the business of `model.text`.
"""
