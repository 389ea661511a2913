"""⑤ How likely the network finds given translations, token by token (teacher forcing).

Shapes: N sentences, S source, T target positions, V vocabulary.
"""

import math
from collections.abc import Sequence

import torch

from model.decoding.pytorch.network import Network
from model.decoding.pytorch.padding import pad_rows
from model.decoding.sentence import check_ids, check_source
from model.errors import InputError, NotFiniteError, TextTooLongError


@torch.inference_mode()
def score_translations(
    network: Network,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    *,
    max_batch_tokens: int = 4096,
    device: torch.device | str = "cpu",
) -> list[list[float]]:
    """Natural logarithms of P(token | source, tokens before it), in the order given.

    Args:
        network: In evaluation mode.
        sources: Source ids as the network reads them: language tag, pieces, EOS.
        targets: Target ids, with EOS where it is to be counted.
        max_batch_tokens: Bound on sentences × the longer of source and target.
        device: Where the network lives.

    Raises:
        InputError: If the numbers of sources and targets differ, or an id is not in a vocabulary.
        TextTooLongError: If a source or target is over `max_positions`.
        NotFiniteError: If the network's output is not a number.
    """
    if len(sources) != len(targets):
        raise InputError(f"`targets` must be {len(sources)}, one a source, but are {len(targets)} instead")
    for source, target in zip(sources, targets, strict=True):
        _check_pair(network, source, target)
    lengths = [max(len(s), len(t)) for s, t in zip(sources, targets, strict=True)]
    order = sorted(range(len(sources)), key=lambda i: lengths[i], reverse=True)
    scores: list[list[float]] = [[] for _ in sources]
    place = torch.device(device)
    while order:
        size = max(1, max_batch_tokens // lengths[order[0]])
        batch, order = order[:size], order[size:]
        rows = _score_batch(network, [sources[i] for i in batch], [targets[i] for i in batch], place)
        for i, row in zip(batch, rows, strict=True):
            scores[i] = row
    return scores


def _score_batch(
    network: Network, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], device: torch.device
) -> list[list[float]]:
    config = network.config
    source_NS = pad_rows(sources, config.pad_id, device)
    input_NT = pad_rows([(config.decoder_start_id, *t[:-1]) for t in targets], config.pad_id, device)
    output_NT = pad_rows(targets, config.pad_id, device)
    logits_NTV = network(source_NS, input_NT).float()
    chosen_NT = logits_NTV.gather(2, output_NT[..., None]).squeeze(2) - logits_NTV.logsumexp(2)
    rows = [row[: len(t)] for row, t in zip(chosen_NT.tolist(), targets, strict=True)]
    if any(math.isnan(score) for row in rows for score in row):
        raise NotFiniteError()
    return rows


def _check_pair(network: Network, source: Sequence[int], target: Sequence[int]) -> None:
    config = network.config
    check_source(source, config)
    check_ids("targets", target, config.target_vocab_size, {config.pad_id})
    if len(target) > config.max_positions:
        raise TextTooLongError("targets", "max_positions", config.max_positions, len(target))
