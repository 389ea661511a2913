"""How much a training step has to compute at least, pair by pair: what the run's own log only estimates."""

from model.config import TransformerConfig
from model.training.data.batches import Batch
from model.training.report.utilisation import operations_of_pair


def operations(config: TransformerConfig, batch: Batch) -> float:
    """Multiplications and additions of the matrix products of a step, padding and recomputation left out."""
    sources = (batch.source_NS != config.pad_id).sum(-1).tolist()
    targets = (batch.labels_NT != config.pad_id).sum(-1).tolist()
    return sum(operations_of_pair(config, *lengths) for lengths in zip(sources, targets, strict=True))
