"""⑤ The running batch in PyTorch: the reference of the native one, the fallback, and the way onto a GPU.

    torch_runner    the batch at its exact size (lending, entries)
    static_runner   the batch in fixed sizes, each a CUDA graph (static_batch, fixed_state, buckets,
                    cuda_graphs, encoding, transfer)
    running         who sits in which slot of a batch, who is done, and what became of them (roll, stepping)
    grid            one step of all slots, on the device (slot_options, demands)
    constraints     what may not be produced (history)
    search/         greedy, sampling, beam
    scoring         length and coverage penalties
    trace           who produced which token, and the way back to a hypothesis
    score           the log-probability of a given translation
    network         what all this asks of a network (padding)

Equal to the native batch in all that it decides.
"""
