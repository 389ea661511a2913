"""Text in and out: clean-up, documents, token ids, languages; no torch.

`kept_strings` protects placeholders, addresses and figures. `languages` detects the language of a text; lists
of common words help it with short texts, and `scripts` tells writing systems. `casing` handles capitals.
"""
