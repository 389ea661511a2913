"""What is raced: engines that turn token ids into token ids; and ours."""

import copy
from collections.abc import Sequence
from typing import Protocol

from model.decoding.engine import DecodingEngine
from model.engines import torch_engine
from model.errors import TranslationError
from model.precision import Precision, apply_precision, dtype_of, resolve_device
from model.request import DecodeOptions, DecodeRequest
from model.transformer import Transformer

Ids = Sequence[int]
OURS = "dragoman"
_WHOLE_BATCH = 1_000_000


class Engine(Protocol):
    """A contestant.

    Attributes:
        name: Whose it is.
        precision: What it computes in, in our words.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 (see the class)

    @property
    def precision(self) -> str: ...  # noqa: D102

    def decode(self, sources: Sequence[Ids], options: DecodeOptions) -> list[tuple[int, ...]]:
        """The best translation of each source, all of them in one batch.

        Args:
            sources: Token ids, EOS included.
            options: Strategy greedy or beam, `beam_size`, `length_penalty`, `max_length`.

        Returns:
            Token ids without EOS, in the order of the sources.
        """


class DragomanEngine:
    """Our engine, fed with just one batch at a time."""

    name = OURS

    def __init__(self, engine: DecodingEngine, precision: str) -> None:
        self.precision = precision
        self._engine = engine

    @classmethod
    def of(cls, network: Transformer, precision: Precision) -> "DragomanEngine":
        """An engine over a copy of a float32 network."""
        own = copy.deepcopy(network).to(dtype_of(precision, resolve_device("cpu")))
        apply_precision(own, precision)
        return cls(torch_engine(own, max_batch_tokens=_WHOLE_BATCH), precision)

    def decode(self, sources: Sequence[Ids], options: DecodeOptions) -> list[tuple[int, ...]]:
        """See Engine."""
        results = self._engine.decode([DecodeRequest(tuple(ids), options) for ids in sources])
        translations = []
        for result in results:
            if isinstance(result, TranslationError):
                raise result
            translations.append(result[0].token_ids)
        return translations


def beams(options: DecodeOptions) -> int:
    """Width of the search; 1 is greedy."""
    return options.beam_size if options.strategy == "beam" else 1
