"""One update of the weights: the loss, the optimiser, the learning rate, and what an update measures.

`step` is the update. A loss belongs in `objective`, an optimiser or an average of weights in `optimiser`, a
curve of the learning rate in `schedule`.
"""
