"""② … ⑧ One request's texts: split, encode, decode, rebuild; with pivots, partial results.

`service` translates a request, second attempts included. `reader` finds the language of each text, refuses
a language that no checkpoint reads, and finds the checkpoint and the token ids. `catalogue` has the
checkpoints of each language pair and the routes through a pivot, and refuses other pairs. `requests` has
the records of a request, its texts and its answer. `file_jobs` translates uploaded files, in portions.
`glossary_store` keeps glossaries for all APIs, at most so many. The steps that the service shares with
`Translator` are in `model.translation`.
"""
