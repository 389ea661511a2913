"""One update of the weights: the loss, the optimiser and its state, the learning rate, and measurements."""
