"""Training on batches: the loss, the optimiser, the learning rate, and one update of the weights."""
