"""`dragoman import`: models of other frameworks become checkpoint folders.

A new format is a module in `formats` with the two functions of `reader.Reader`, and a line in
`formats.FORMATS`. Its `read` returns a `reader.ForeignModel`. `tensors` and
`state_dict` read files of weights, `parameters` maps their tensors to ours by a table of names, `vocabulary`
arranges ids, and `languages` finds languages and licence. `importer` downloads models of the hub, and puts it
all together.
"""
