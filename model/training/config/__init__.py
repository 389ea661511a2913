"""Every value of a training run: read from files and options, checked once. No torch.

`data` has corpora, vocabulary and the size of batches. `optimisation` has the loss, the optimiser and the
learning rate. `run` has the end of a run, validation and early stopping.
"""
