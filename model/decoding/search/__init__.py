"""⑤ Search strategies, and the one place that knows them by name."""

from collections.abc import Callable, Mapping, Sequence

import torch

from model.config import TransformerConfig
from model.decoding.search.beam import BeamSearch
from model.decoding.search.greedy import GreedySearch
from model.decoding.search.mixed import MixedSearch
from model.decoding.search.protocol import Search
from model.decoding.search.sample import SampleSearch
from model.decoding.sentence import Sentence
from model.request import Strategy

_Factory = Callable[[Sequence[Sentence], TransformerConfig, torch.device], Search]
_STRATEGIES: Mapping[Strategy, _Factory] = {
    "greedy": GreedySearch,
    "sample": SampleSearch,
    "beam": BeamSearch,
}


def make_search(sentences: Sequence[Sentence], config: TransformerConfig, device: torch.device) -> Search:
    """The search for one batch, whose sentences all occupy the same number of lanes."""
    slots: dict[Strategy, list[int]] = {}
    for slot, sentence in enumerate(sentences):
        slots.setdefault(sentence.options.strategy, []).append(slot)
    parts = [
        (_STRATEGIES[strategy]([sentences[slot] for slot in own], config, device), own)
        for strategy, own in slots.items()
    ]
    return parts[0][0] if len(parts) == 1 else MixedSearch(parts, sentences[0].options.lanes, device)
