"""CTranslate2 with our weights: exported to Marian, then converted by its own converter."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import ctranslate2
from ctranslate2.converters.transformers import MarianMTLoader

from benchmarks.engine import Ids, beams
from benchmarks.peers.hugging_face import export_marian
from model.config import TransformerConfig
from model.request import DecodeOptions
from model.transformer import Transformer


class CTranslate2Engine:
    """A contestant; see benchmarks.engine.Engine.

    Threads are used in the way that is fastest here: each works on sentences of its own
    (`inter_threads`), none shares a matrix product (`intra_threads=1`).
    """

    name = "ctranslate2"

    def __init__(self, network: Transformer, precision: str, threads: int) -> None:
        self.precision = precision
        self._threads = threads
        self._tokens = _Vocabulary.of(network.config).tokens
        self._ids = {token: i for i, token in enumerate(self._tokens)}
        with TemporaryDirectory() as folder:
            _convert(network, Path(folder))
            self._translator = ctranslate2.Translator(
                folder, device="cpu", compute_type=precision, inter_threads=threads, intra_threads=1
            )

    def decode(self, sources: Sequence[Ids], options: DecodeOptions) -> list[tuple[int, ...]]:
        """See Engine."""
        results = self._translator.translate_batch(
            [[self._tokens[i] for i in ids] for ids in sources],
            max_batch_size=-(-len(sources) // self._threads),
            beam_size=beams(options),
            length_penalty=options.length_penalty,
            max_decoding_length=options.max_length,
        )
        return [tuple(self._ids[token] for token in result.hypotheses[0]) for result in results]


@dataclass(frozen=True)
class _Vocabulary:
    """What the converter asks of a tokenizer: names of the tokens, which here are their numbers."""

    tokens: Sequence[str]
    eos_token: str = "</s>"
    unk_token: str = "<unk>"
    bos_token: None = None

    @classmethod
    def of(cls, config: TransformerConfig) -> "_Vocabulary":
        tokens = [str(i) for i in range(config.target_vocab_size)]
        # The converter drops a last token of this name: Marian's decoder starts from a zero vector.
        tokens[config.pad_id] = "<pad>"
        tokens[config.eos_id], tokens[config.unk_id] = cls.eos_token, cls.unk_token
        return cls(tokens)

    def get_vocab(self) -> Mapping[str, int]:
        return {token: i for i, token in enumerate(self.tokens)}


def _convert(network: Transformer, folder: Path) -> None:
    """Write CTranslate2's model folder, in float32; it quantises while loading."""
    spec = MarianMTLoader()(export_marian(network), _Vocabulary.of(network.config))
    spec.validate()
    spec.optimize()
    spec.save(str(folder))
