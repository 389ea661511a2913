"""What a run writes into its folder, and reads when it resumes.

`folder` names the files, locks them, and has the log; `writer` writes states and checkpoints next to the
training, with what a checkpoint says about its origin, and deletes the checkpoints that are no longer kept.
A value to resume from belongs in `state`.
"""
