"""Text in and out; no torch.

document         ② ⑧ sentences and the gaps between them; where sentences end
source_sentence  ③ ⑦ a sentence as the network reads it; casing
normalisation    clean-up of characters, the same for training and for serving
tokenizer        text to token ids and back, with SentencePiece; piece_models has other projects' kinds
tags             inline tags, each a character of the text, apart from it
kept_strings     protects placeholders, addresses and figures
glossary         terms with prescribed translations
languages        codes, names, capitals and scripts of languages
detection        finds the language of a text, by letters and by the words of `common_words.txt`
                 (`checkpoints/recipe/common_words.py` writes it); neighbour_languages names a language
                 that no checkpoint reads, which is one of lingua's with a line in `neighbour_words.txt`
formats/         the texts of files: HTML, Office, subtitles, XLIFF, Markdown

A new language is a line in `languages.txt`. A script of its own goes into the tables of scripts in
`languages` and `detection`.
"""
