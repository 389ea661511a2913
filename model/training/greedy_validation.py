"""ⓕ The likeliest token at each step, for batches of sentences: enough to follow a run."""

from collections.abc import Sequence

import torch

from model.request import DecodeRequest, Hypothesis
from model.transformer import Transformer

_SENTENCES_AT_ONCE = 128


@torch.inference_mode()
def decode_greedily(network: Transformer, requests: Sequence[DecodeRequest]) -> list[list[Hypothesis]]:
    """One hypothesis a request, in their order; similar lengths share a batch."""
    order = sorted(range(len(requests)), key=lambda i: len(requests[i].source_ids))
    found: list[list[Hypothesis]] = [[] for _ in requests]
    for start in range(0, len(order), _SENTENCES_AT_ONCE):
        places = order[start : start + _SENTENCES_AT_ONCE]
        rows = [requests[i].source_ids for i in places]
        for place, ids in zip(places, _decode(network, rows), strict=True):
            found[place] = [Hypothesis(ids, 0.0, 0.0, (), finished=True)]
    return found


def _decode(network: Transformer, rows: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    config = network.config
    device = network.output.weight.device
    longest = max(map(len, rows))
    padded = [[*row, *[config.pad_id] * (longest - len(row))] for row in rows]
    capacity = 2 * longest + 10
    state = network.start(network.encode(torch.tensor(padded, device=device)), lanes=1, capacity=capacity)
    tokens_N1 = torch.full((len(rows), 1), config.decoder_start_id, device=device)
    produced = []
    ended = torch.zeros_like(tokens_N1, dtype=torch.bool)
    for _ in range(capacity):
        tokens_N1 = network.decode_step(tokens_N1, state)[:, 0].argmax(-1, keepdim=True)
        tokens_N1 = tokens_N1.masked_fill(ended, config.eos_id)
        ended |= tokens_N1 == config.eos_id
        produced.append(tokens_N1)
        if bool(ended.all()):
            break
    ids = torch.cat(produced, 1).tolist()
    return [tuple(row[: row.index(config.eos_id)] if config.eos_id in row else row) for row in ids]
