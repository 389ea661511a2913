"""`dragoman import`: models of other frameworks become checkpoint folders.

A new format is a module in `formats` with the two functions of `reader.Reader`, and a line in
`formats.FORMATS`. Its `read` returns a `reader.ForeignModel`. A new family of Hugging Face is an entry in the
tables of `formats.hugging_face_network` and `formats.hugging_face_tokenizers`. `reader` also finds languages
and licence, `tensors` reads files of weights, `parameters` maps their tensors to ours by a table of names,
and `vocabulary` arranges ids. `importer` downloads models of the hub, and writes the checkpoint.

Wherever a file is read, a CheckpointError tells what is broken or cannot be computed: the file, the field or
tensor, what it must be and what it is.
"""
