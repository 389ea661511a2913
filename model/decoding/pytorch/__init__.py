"""⑤ The running batch in PyTorch: the reference of the native one, the fallback, and the way onto a GPU.

    torch_runner    the batch at its exact size
    static_runner   the batch in a few fixed sizes, each a CUDA graph (cuda_graphs)
    running_batch   which sentence has which slot, how long it is, and its results
    batch_state     one step of all slots on the device
    slot_options    the options of all slots as tensors, and the features that any of them uses, which decide
                    what a CUDA graph holds
    kv_allocator    which KV slots a sentence may fill
    backpointers    which hypothesis produced which token
    search/         greedy search, sampling, beam search, constraints, penalties
    encoding        encoder batches that run next to the decoder
    kernel_check    whether steps may use the Triton kernels
    kernel_cases    what each kernel computes on random tensors, and the same in PyTorch
    loading         a checkpoint's network on a device, in a precision
    device_use      what recording excludes, transfers, and what errors of a device mean

It decides exactly as the native batch does.
"""
