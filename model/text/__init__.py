"""Text in and out: clean-up, documents, token ids, languages; no torch.

`kept_strings` protects placeholders, addresses and figures. `detection` finds the language of a text, with
`common_words.txt` for short texts (`checkpoints/recipe/common_words.py` writes it); `languages` has codes and
names, `scripts` writing systems. `casing` handles capitals.
"""
