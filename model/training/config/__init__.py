"""Every value of a training run: read from files and options, checked once. No torch."""
