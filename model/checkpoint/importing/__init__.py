"""`dragoman import`: models of other frameworks become checkpoint folders.

A new format is a module in `formats/` with the two functions of `foreign.Reader`, and a line in
`recognise.FORMATS`. It returns a `foreign.ForeignModel`. `parameters` maps tensors by a table of names,
`tensors` and `state_dict` read files, `text` finds languages, licence and SentencePiece models.
"""
