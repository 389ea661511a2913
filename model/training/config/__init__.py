"""Every value of a training run: `sections` has a class for each table of a file, `train_config` joins them.

A new setting is a field of a section. No torch.
"""
