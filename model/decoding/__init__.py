"""⑤ Source ids in, hypotheses out: search over the network's cached one-token step.

Without torch:

    engine          who runs and when they join (admission, load); results in the order of requests
    sentence        one admitted request: its checks and its length bounds
    runner          what drives a running batch; the seam below which torch or C++ begins
    interrupt       a word from another thread: look up
    observer        what metrics may see
    random_numbers  of sampling, the same in every runner
    native_runner   the batch in the native library

In torch:

    torch_runner    the batch at its exact size: the reference, and the fallback (lending, entries)
    static_runner   the batch in fixed sizes, each a CUDA graph (static_batch, fixed_state, buckets,
                    cuda_graphs, encoding)
    running         who sits in which slot of a batch, who is done, and what became of them
    grid            one step of all slots, on the device (slot_options, demands)
    constraints     what may not be produced (history)
    search/         greedy, sampling, beam
    scoring         length and coverage penalties
    trace           who produced which token, and the way back to a hypothesis
    score           the log-probability of a given translation
    network         what all this asks of a network

Token ids are the only contract with the text on either side.
"""
