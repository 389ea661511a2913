"""A training step of Hugging Face's MarianMTModel: its own loss, the same optimiser as ours."""

import torch
from torch import nn

from benchmarks.trainer import OPTIMISATION
from model.checkpoint.formats.hugging_face import hugging_face_model
from model.network.transformer import Transformer
from model.training.config.run import Precision
from model.training.data.batches import Batch
from model.training.step import autocast, build_optimiser

_NO_LABEL = -100


class HuggingFaceTrainer:
    """A contestant; see benchmarks.trainer.Trainer.

    Its attention is whatever is faster: on a GPU `sdpa`, their default; on a CPU `eager`, which is as fast
    in float32 and faster in bfloat16.
    """

    name = "hugging face"

    def __init__(self, network: Transformer, precision: Precision, device: torch.device) -> None:
        self.precision = precision
        self._device = device
        self._pad_id = network.config.pad_id
        self._model = hugging_face_model(network, "marian")
        nn.Module.to(self._model, device)
        self._model.set_attn_implementation("sdpa" if device.type == "cuda" else "eager")
        self._optimiser = build_optimiser(self._model, OPTIMISATION)

    @torch.inference_mode()
    def cross_entropy(self, batch: Batch) -> float:
        """See Trainer."""
        self._model.eval()
        return float(self._loss(batch))

    def update(self, step: int, batch: Batch) -> None:
        """See Trainer."""
        self._model.train()
        self._optimiser.zero_grad(set_to_none=True)
        with autocast(self._device, self.precision):
            loss = self._loss(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), OPTIMISATION.clip_norm)
        self._optimiser.step()

    def _loss(self, batch: Batch) -> torch.Tensor:
        """Mean over the target tokens."""
        result: torch.Tensor = self._model(
            input_ids=batch.source_NS,
            attention_mask=(batch.source_NS != self._pad_id).long(),
            decoder_input_ids=batch.decoder_input_NT,
            labels=batch.labels_NT.masked_fill(batch.labels_NT == self._pad_id, _NO_LABEL),
        ).loss
        return result
