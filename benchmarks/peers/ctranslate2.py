"""CTranslate2, from a folder that `dragoman export` wrote."""

import json
from collections.abc import Sequence
from pathlib import Path

import ctranslate2

from benchmarks.engine import Ids, Translations, beams
from model.request import DecodeOptions

# It cuts longer sources without a word; none of ours is, by the checkpoint's limit.
_LONGEST_SOURCE = 1024


class CTranslate2Engine:
    """A contestant; see benchmarks.engine.Engine.

    Threads are used in the way that is fastest here: each works on batches of its own
    (`inter_threads`), none shares a matrix product (`intra_threads=1`).
    """

    def __init__(self, folder: Path, precision: str, threads: int, *, device: str = "cpu") -> None:
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
        """See Engine; knows one length limit a call, the longest source's."""
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
