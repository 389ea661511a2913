"""CTranslate2, from a folder that `dragoman export` wrote."""

import json
from collections.abc import Sequence
from pathlib import Path

import ctranslate2

from benchmarks.engines import Ids, Translations, beams
from model.decode_request import DecodeOptions

# CTranslate2 cuts longer sources silently; the checkpoint's limit keeps ours shorter.
_LONGEST_SOURCE = 1024


class CTranslate2Engine:
    """See Engine. Each thread works on batches of its own, which is faster than sharing products."""

    def __init__(self, folder: Path, precision: str, threads: int, device: str) -> None:
        vocabulary = folder / "shared_vocabulary.json"
        sides = (
            (vocabulary, vocabulary)
            if vocabulary.exists()
            else (folder / "source_vocabulary.json", folder / "target_vocabulary.json")
        )
        self._source_tokens, target_tokens = (json.loads(side.read_text(encoding="utf-8")) for side in sides)
        self._target_ids = {token: i for i, token in enumerate(target_tokens)}
        self._translator = ctranslate2.Translator(
            str(folder), device=device, compute_type=precision, inter_threads=threads, intra_threads=1
        )

    def decode(self, sources: Sequence[Ids], options: DecodeOptions, batch_size: int) -> Translations:
        """See Engine; a call has one length limit, that of the longest source."""
        limits = [options.length_bounds(len(ids), _LONGEST_SOURCE) for ids in sources]
        results = self._translator.translate_batch(
            [[self._source_tokens[i] for i in ids] for ids in sources],
            max_batch_size=batch_size,
            beam_size=beams(options),
            length_penalty=options.length_penalty,
            max_decoding_length=max(longest for _, longest in limits),
            min_decoding_length=min(shortest for shortest, _ in limits),
        )
        return [tuple(self._target_ids[token] for token in result.hypotheses[0]) for result in results]


load = CTranslate2Engine
