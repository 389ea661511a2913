"""The offline trainer: parallel text in, checkpoint folder out.

`run` is a whole run and `trainer` its loop over updates. `validation` computes the scores that choose the
best checkpoint and end a run early. `train_config` joins the settings, of which `config_sections` has a
class for each table of a file: a new setting is a field of a section. Text and batches are in `data`, one
update in `optimisation`, devices and processes in `distributed`, what a run writes in `run_folder`, and its
report in `report`.
"""
