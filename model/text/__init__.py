"""Text in and out: clean-up, documents, token ids, languages; no torch.

`sentences` finds where sentences end, and where one that is too long is divided. `tags` sets inline tags in
a translation by the alignment of words, and `kept_strings` protects placeholders, addresses and figures.
`detection` finds the language of a text, also one that no checkpoint reads, with `common_words.txt` for
short texts (`checkpoints/recipe/common_words.py` writes it); `languages` has codes and names, `scripts`
writing systems. `casing` handles capitals.
"""
