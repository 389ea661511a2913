"""A session on a GPU: what was predicted, beside what is measured. PyTorch is enough for most of it."""
