"""ⓕ What a checkpoint that was made of others says of them."""

from model.checkpoint.folder import Checkpoint

_OF_ITS_ANSWERS = ("files", "scores", "evaluations", "tuning", "golden", "shortlist")


def inherited_provenance(checkpoint: Checkpoint) -> dict[str, object]:
    """What provenance says, but for what it says of the answers, which other weights need not give."""
    return {name: value for name, value in checkpoint.provenance.items() if name not in _OF_ITS_ANSWERS}


def identity(checkpoint: Checkpoint) -> dict[str, str]:
    """By what a checkpoint can be known again."""
    return {
        "name": checkpoint.card.name,
        "version": checkpoint.card.version,
        "checksum": checkpoint.checksum,
    }
