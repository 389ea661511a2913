"""ⓕ The checkpoint folder: everything a trained network needs, as data, whole or not at all.

    config.json          format version, architecture (TransformerConfig), card (ModelCard)
    model.safetensors    the weights; past 15 MB: model-00001-of-0000N.safetensors + an index
    tokenizer.json …     the tokenizer's settings and SentencePiece models
    shortlist.safetensors  optional: the target tokens that each source token may become
    provenance.json      data, steps, scores, code version, golden sentences, SHA-256 of each other file

No pickle is ever read, and nothing in a folder is executed. A folder that is incomplete, corrupt,
of another shape or holding NaN is refused with a CheckpointError that names the file or tensor.

Promise: a checkpoint written by any release with the same format version stays loadable.
"""

from model.card import ModelCard
from model.checkpoint.averaging import average_checkpoints
from model.checkpoint.folder import Checkpoint, load_checkpoint, save_checkpoint
from model.checkpoint.growing import grow_checkpoint
from model.checkpoint.manifest import FORMAT_VERSION, record, record_evaluation
from model.checkpoint.rewriting import replace_card
from model.checkpoint.shortlist import add_shortlist

__all__ = [
    "FORMAT_VERSION",
    "Checkpoint",
    "ModelCard",
    "add_shortlist",
    "average_checkpoints",
    "grow_checkpoint",
    "load_checkpoint",
    "record",
    "record_evaluation",
    "replace_card",
    "save_checkpoint",
]
