"""The offline trainer: parallel text in, checkpoint folder out.

`run` is a whole run, `trainer` its loop over updates. `validation` computes the scores that choose the best
checkpoint and end a run early.
"""
