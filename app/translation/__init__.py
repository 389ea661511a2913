"""② … ⑧ One request's texts: split, encode, decode, rebuild; with pivots, partial results.

`service` conducts a request. `reader` finds the language of each text, its checkpoint and its token ids.
`catalogue` has the checkpoints of each language pair and the routes through a pivot, and refuses other pairs.
Files, stored glossaries and second attempts are here too. The steps that the service shares with `Translator`
are in `model.translation`.
"""
