"""Hugging Face's model decoding by its own `generate`, from a folder that `dragoman export` wrote."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self, cast

import torch
from torch import Tensor
from transformers import AutoModelForSeq2SeqLM, PreTrainedModel

from benchmarks.engine import Ids, Translations, beams
from model.request import DecodeOptions


class HuggingFaceEngine:
    """A contestant; see benchmarks.engine.Engine. Its threads share every matrix product.

    Args:
        model: In evaluation mode.
        threads: How many share them.
    """

    def __init__(self, model: PreTrainedModel, threads: int = 1) -> None:
        self._model, self._threads = model, threads
        self._generate = cast(Callable[..., Tensor], model.generate)
        settings = model.generation_config
        self._pad_id, self._eos_id = settings.pad_token_id, settings.eos_token_id

    @classmethod
    def load(cls, folder: Path, precision: str, threads: int) -> Self:
        """See benchmarks.engine.Loader."""
        torch.set_num_threads(threads)
        return cls(AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=getattr(torch, precision)), threads)

    @torch.inference_mode()
    def decode(self, sources: Sequence[Ids], options: DecodeOptions, batch_size: int) -> Translations:
        """See Engine."""
        translations: Translations = []
        # Its threads share a batch: it has as many sentences at once as others that give each thread its own.
        size = batch_size * self._threads
        for start in range(0, len(sources), size):
            translations += self._decode_batch(sources[start : start + size], options)
        return translations

    def _decode_batch(self, sources: Sequence[Ids], options: DecodeOptions) -> Translations:
        longest = max(map(len, sources))
        padded = [[*ids, *[self._pad_id] * (longest - len(ids))] for ids in sources]
        source_NS = torch.tensor(padded, device=self._model.device)
        limit = self._model.config.max_position_embeddings
        produced_NT = self._generate(
            input_ids=source_NS,
            attention_mask=(source_NS != self._pad_id).long(),
            max_length=None,
            max_new_tokens=max(options.length_bounds(len(ids), limit - 1)[1] for ids in sources),
            num_beams=beams(options),
            length_penalty=options.length_penalty,
            do_sample=False,
        )
        return [self._words(ids) for ids in produced_NT[:, 1:].tolist()]

    def _words(self, ids: list[int]) -> tuple[int, ...]:
        ends = [ids.index(end) for end in (self._eos_id, self._pad_id) if end in ids]
        return tuple(ids[: min(ends, default=len(ids))])
