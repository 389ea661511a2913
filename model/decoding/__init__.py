"""⑤ Source ids in, hypotheses out: search over the network's cached one-token step.

    engine          who runs and when they join (admission, load); results in the order of requests
    parallel        several engines for one list of requests
    sentence        one admitted request: its checks and its length bounds
    runner          what drives a running batch; the seam below which C++ or PyTorch begins
    interrupt       a word from another thread: look up
    observer        what metrics may see
    random_numbers  of sampling, the same in every runner
    native_runner   the batch in the native library
    pytorch/        the batch in PyTorch; nothing above imports torch

Token ids are the only contract with the text on either side.
"""
