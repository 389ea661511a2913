"""⑤ The running batch in PyTorch: the reference of the native one, the fallback, and the way onto a GPU.

    torch_runner    the batch at its exact size; a checkpoint's network on a device, in a precision
    static_runner   the batch in a few fixed sizes, each a CUDA graph
    running_batch   which sentence has which slot and KV slots, how long it is, and its results
    batch_state     one step of all slots on the device
    slot_options    the options of all slots as tensors, and the features that any of them uses, which decide
                    what a CUDA graph holds
    backpointers    which hypothesis produced which token
    search/         greedy search, sampling, beam search, constraints, penalties
    encoding        encoder batches that run next to the decoder
    kernel_check    whether steps may use the Triton kernels: what they compute is compared with PyTorch
    device_use      transfers, what errors of a device mean, and recordings (CUDA graphs)

It decides exactly as the native batch does.
"""
