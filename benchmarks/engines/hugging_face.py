"""Hugging Face's model decoding by its own `generate`, from a folder that `dragoman export` wrote."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import torch
from torch import Tensor
from transformers import AutoModelForSeq2SeqLM

from benchmarks.engines import Ids, Translations, beams
from model.decode_request import DecodeOptions


class HuggingFaceEngine:
    """See Engine. The threads share every matrix product."""

    def __init__(self, folder: Path, precision: str, threads: int, device: str) -> None:
        torch.set_num_threads(threads)
        self._model = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=getattr(torch, precision))
        torch.nn.Module.to(self._model, device)
        self._threads = threads
        self._generate = cast(Callable[..., Tensor], self._model.generate)
        settings = self._model.generation_config
        self._pad_id, self._eos_id = settings.pad_token_id, settings.eos_token_id

    @torch.inference_mode()
    def decode(self, sources: Sequence[Ids], options: DecodeOptions, batch_size: int) -> Translations:
        """See Engine."""
        translations: Translations = []
        # The threads share a batch, so it holds as many sentences as the batches of other engines together.
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


load = HuggingFaceEngine
