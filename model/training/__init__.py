"""The offline trainer: parallel text in, checkpoint folder out.

`run` is a whole run and `trainer` its loop over updates. `validation` computes the scores that choose the
best checkpoint and end a run early; `warm_start` begins with the weights of a checkpoint. The settings are
in `config`, text and batches in `data`, one update in `optimisation`, devices and processes in
`distributed`, what a run writes in `run_folder`, and its report in `report`.
"""
