"""⑤ Whether a GPU computes steps by Triton kernels: each is first compared with PyTorch on random tensors.

Shapes: N slots, K hypotheses, R rows (slots × hypotheses), H heads, D head dim, C positions, S source
positions, P KV slots, M model dim.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import cast, get_args

import torch
from torch import Tensor

from model.config import NormForm, TransformerConfig
from model.decode_request import STOPS, DecodeOptions, DecodeRequest, Stop
from model.decoding.pytorch.backpointers import Backpointers
from model.decoding.pytorch.device_use import using
from model.decoding.pytorch.search.beam import BeamSearch
from model.decoding.pytorch.search.step import StepOutput
from model.decoding.pytorch.slot_options import ActiveFeatures, SlotOptions
from model.decoding.sentence import Sentence
from model.network.layers import FeedForward, layer_norm
from model.network.transformer import Transformer
from model.network.triton_ops.choice import (
    BeamTensors,
    Forbidden,
    GreedyTensors,
    StepTensors,
    flat,
    likeliest_tokens,
    record_beams,
    record_by_parts,
    record_greedy,
)
from model.network.triton_ops.layers import (
    BlockTables,
    Pool,
    add_norm,
    attend_to_self,
    attend_to_source,
    embed,
    reference_attention,
)

logger = logging.getLogger(__name__)

# Rounding of an update, a stream and a result of magnitude 4.
_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.07}


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes of the tensors of the cases.

    Attributes:
        lengths: Tokens that each slot has produced; −1 is an empty slot.
        source_lengths: Source tokens of each slot.
        vocabulary: Tokens of the vocabulary.
    """

    width: int = 3
    heads: int = 2
    head_dim: int = 5
    capacity: int = 37
    lengths: tuple[int, ...] = (0, 36, -1, 7)
    source_lengths: tuple[int, ...] = (1, 37, 0, 33)
    vocabulary: int = 301


def fuse_steps(network: Transformer, device: torch.device) -> bool:
    """Have a GPU decode with fewer kernels, if they work there and support the network.

    Returns:
        Whether steps may use the Triton kernels.
    """
    with using(device):
        if network.config.positions == "relative_vectors" or not kernels_work(device):
            return False
        network.decoder.join_projections()
    return True


@cache
def kernels_work(device: torch.device) -> bool:
    """Returns whether the kernels run on a device and compute what PyTorch does; if not, the log says why.

    The first call on a GPU compiles the kernels for small tensors, in some seconds.
    """
    if device.type != "cuda":
        return False
    try:
        for dtype in _TOLERANCE:
            require_agreement(device, dtype)
    except Exception as reason:  # whatever it is, PyTorch can do without the kernels
        logger.warning(
            "decoder steps on %s use no Triton kernels: %s: %s", device, type(reason).__name__, reason
        )
        return False
    logger.info("decoder steps on %s use Triton kernels", device)
    return True


@torch.inference_mode()
def require_agreement(device: torch.device, dtype: torch.dtype, sizes: Sizes | None = None) -> None:
    """Compare every kernel with its reference.

    Raises:
        RuntimeError: If a kernel differs.
    """
    for name, (kernel, reference) in cases(device, dtype, sizes or Sizes()).items():
        for computed, expected in zip(kernel(), reference(), strict=True):
            worst = float((computed.float() - expected.float()).abs().max())
            if not worst <= _TOLERANCE[dtype]:
                raise RuntimeError(f"the kernel {name} differs by {worst} from PyTorch in {dtype}")


Compute = Callable[[], tuple[Tensor, ...]]
"""Returns what is compared."""


def cases(device: torch.device, dtype: torch.dtype, sizes: Sizes) -> Mapping[str, tuple[Compute, Compute]]:
    """For each kernel by name: what computes by it, and what computes the same in PyTorch."""
    parts = _attentions, _embeddings, _norms, _feed_forwards, _vocabularies, _greedy_records, _beam_records
    return dict(each for part in parts for each in part(device, dtype, sizes))


def _attentions(
    device: torch.device, dtype: torch.dtype, sizes: Sizes
) -> Iterator[tuple[str, tuple[Compute, Compute]]]:
    random = torch.Generator().manual_seed(1)
    slots, width, capacity = len(sizes.lengths), sizes.width, sizes.capacity

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=random).to(device, dtype)

    heads = sizes.heads, sizes.head_dim
    num_kv_slots = slots * (width + 1) * capacity
    order_P = torch.randperm(num_kv_slots, generator=random).to(device)
    target_kv_NKC = order_P[: slots * width * capacity].view(slots, width, capacity)
    source_kv_NS = order_P[slots * width * capacity :].view(slots, capacity)
    lengths_N, source_lengths_N = (
        torch.tensor(each, device=device) for each in (sizes.lengths, sizes.source_lengths)
    )
    # An empty slot has a position, too, and numbers that must not be read.
    is_live_N, positions_N = lengths_N >= 0, lengths_N % capacity
    at_C = torch.arange(capacity, device=device)
    pool = draw(num_kv_slots, *heads), draw(num_kv_slots, *heads)
    for each in pool:
        each[target_kv_NKC[~is_live_N]] = torch.nan
        each[source_kv_NS[~is_live_N]] = torch.nan
    queries_RHD, keys_RHD, values_RHD = draw(3, slots * width, *heads)
    scale = sizes.head_dim**-0.5
    tables = BlockTables(
        positions_N=positions_N,
        is_live_N=is_live_N,
        target_kv_NKC=target_kv_NKC,
        block_table_NKC=target_kv_NKC.masked_fill(at_C >= positions_N[:, None, None], 0),
        bias_HC=draw(sizes.heads, capacity),
        source_kv_NS=source_kv_NS,
        source_lengths_N=source_lengths_N,
        is_source_NS=(at_C < source_lengths_N[:, None]) & (at_C % 5 != 3),
    )
    is_live_R1 = is_live_N.repeat_interleave(width)[:, None]

    def to_self(tables: BlockTables) -> tuple[Tensor, ...]:
        own: Pool = pool[0].clone(), pool[1].clone()
        joined = attend_to_self(queries_RHD, keys_RHD, values_RHD, own, tables, scale)
        return seen(joined), *map(torch.nan_to_num, own)

    def seen(joined: Tensor) -> Tensor:
        """What was computed; of empty slots 0, unless it is not finite."""
        return torch.where(is_live_R1, joined, joined * 0)

    def to_self_by_parts(bias_HC: Tensor | None) -> tuple[Tensor, ...]:
        own: Pool = pool[0].clone(), pool[1].clone()
        at_NK1 = positions_N[:, None, None].expand(-1, width, 1)
        written_R = target_kv_NKC.gather(2, at_NK1).flatten()
        is_live_R = is_live_R1[:, 0]
        for each, given in zip(own, (keys_RHD, values_RHD), strict=True):
            each[written_R[is_live_R]] = given[is_live_R]
        ago_RC = (positions_N[:, None] - at_C).repeat_interleave(width, 0)
        bias_RHC = None if bias_HC is None else bias_HC.float()[:, ago_RC.clamp_min(0)].transpose(0, 1)
        lists_RC = target_kv_NKC.flatten(0, 1)
        joined = reference_attention(queries_RHD, own, lists_RC, ago_RC >= 0, bias_RHC, scale)
        return joined.where(is_live_R1, 0), *map(torch.nan_to_num, own)

    def to_source_by_parts() -> tuple[Tensor, ...]:
        is_seen_RS = (tables.is_source_NS | ~is_live_N[:, None]).repeat_interleave(width, 0)
        lists_RS = source_kv_NS.repeat_interleave(width, 0)
        joined = reference_attention(queries_RHD, pool, lists_RS, is_seen_RS, None, scale)
        return (joined.where(is_live_R1, 0),)

    unbiased = replace(tables, bias_HC=None)
    yield "attend_to_self", (partial(to_self, unbiased), partial(to_self_by_parts, None))
    yield "attend_to_self, biased", (partial(to_self, tables), partial(to_self_by_parts, tables.bias_HC))
    yield (
        "attend_to_source",
        (lambda: (seen(attend_to_source(queries_RHD, pool, tables, scale)),), to_source_by_parts),
    )


def _embeddings(
    device: torch.device, dtype: torch.dtype, sizes: Sizes
) -> Iterator[tuple[str, tuple[Compute, Compute]]]:
    random = torch.Generator().manual_seed(6)
    dim, shape = sizes.heads * sizes.head_dim, (len(sizes.lengths), sizes.width)
    weight_VM, added_CM = (
        torch.randn(rows, dim, generator=random).to(device, dtype) for rows in (sizes.vocabulary, 5)
    )
    tokens_NK = torch.randint(0, sizes.vocabulary, shape, generator=random).to(device)
    positions_N = torch.arange(len(sizes.lengths), device=device) + 3
    added_N1M = added_CM[positions_N.clamp_max(4), None]
    compute = partial(embed, tokens_NK, weight_VM)
    yield (
        "embed",
        (
            lambda: (compute(1.5, positions_N, added_CM), compute(1.0, positions_N, None)),
            lambda: (weight_VM[tokens_NK] * 1.5 + added_N1M, weight_VM[tokens_NK]),
        ),
    )


def _feed_forwards(
    device: torch.device, dtype: torch.dtype, sizes: Sizes
) -> Iterator[tuple[str, tuple[Compute, Compute]]]:
    """Not a kernel of ours, but PyTorch's product with ReLU, which it documents for no device."""
    random = torch.Generator().manual_seed(5)
    dim = sizes.heads * sizes.head_dim
    config = TransformerConfig(
        source_vocab_size=8, target_vocab_size=8, model_dim=dim, num_heads=1, ffn_dim=2 * dim
    )
    block = FeedForward(config).eval().requires_grad_(requires_grad=False)
    for parameter in block.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=random) / dim)
    block = block.to(device, dtype)
    states = torch.randn(len(sizes.lengths), sizes.width, dim, generator=random).to(device, dtype)
    yield "feed_forward", (lambda: (block.fused(states),), lambda: (block(states),))


def _vocabularies(
    device: torch.device, dtype: torch.dtype, sizes: Sizes
) -> Iterator[tuple[str, tuple[Compute, Compute]]]:
    random = torch.Generator().manual_seed(3)
    dim, slots = sizes.heads * sizes.head_dim, len(sizes.lengths)
    vocabulary, rows = sizes.vocabulary, slots * sizes.width

    def draw(*shape: int) -> Tensor:
        """Multiples of 1/4, whose sums of products are exact in any order."""
        return (torch.randn(shape, generator=random) * 4).round().div(4).to(device, dtype)

    states_RM, weight_VM, bias_V = draw(rows, dim), draw(vocabulary + 3, dim), draw(vocabulary + 3)
    at_V = torch.arange(vocabulary, device=device)
    weight_VM[:vocabulary] = weight_VM[at_V % (vocabulary // 2) // 2]  # ties, near and far
    at_N = torch.arange(slots, device=device)
    forbidden = Forbidden(
        is_never_V=at_V % 5 == 1,
        eos_id=2,
        shortest_N=torch.stack([at_N % 2 * 4, at_N], 1)[:, 0],
        positions_N=torch.full((slots,), 2, device=device),
    )

    def scores(bias_V: Tensor | None) -> Tensor:
        bias = None if bias_V is None else bias_V.float()
        logits_RV = torch.nn.functional.linear(states_RM.float(), weight_VM.float(), bias)
        return forbidden.scores(logits_RV[:, :vocabulary])

    def fused(bias_V: Tensor | None, top: int) -> tuple[Tensor, ...]:
        """Of equally likely tokens but the first, the kernel may take another one."""
        found_RT, tokens_RT = likeliest_tokens(states_RM, weight_VM, bias_V, 1.0, forbidden, top)
        known_RT = tokens_RT.clamp(0, vocabulary - 1)
        scores_RT = scores(bias_V).gather(1, known_RT).masked_fill(tokens_RT != known_RT, torch.nan)
        return found_RT, scores_RT, tokens_RT[:, 0]

    def by_parts(bias_V: Tensor | None, top: int) -> tuple[Tensor, ...]:
        scores_RV = scores(bias_V)
        values_RT = scores_RV.topk(top, 1).values
        first_R = torch.where(scores_RV == values_RT[:, :1], at_V, vocabulary).amin(1)
        return values_RT, values_RT, first_R

    for name, bias, top in (("the likeliest token", None, 1), ("the likeliest eight tokens", bias_V, 8)):
        yield name, (partial(fused, bias, top), partial(by_parts, bias, top))


def _greedy_records(
    device: torch.device, dtype: torch.dtype, sizes: Sizes
) -> Iterator[tuple[str, tuple[Compute, Compute]]]:
    """Numbers of a search are float32 in every precision."""
    random = torch.Generator().manual_seed(4)
    slots, width = len(sizes.lengths), sizes.width
    shape, table = (slots, width), (slots, width, sizes.capacity + 1)
    lengths_N, at_N = torch.tensor(sizes.lengths, device=device), torch.arange(slots, device=device)
    is_live_N, positions_N = lengths_N >= 0, lengths_N.clamp_min(0)
    chosen_NK = torch.randint(0, 3, shape, generator=random).to(device)
    log_probs_NK = torch.randn(shape, generator=random).to(device)
    log_probs_NK[0, 0], log_probs_NK[-1, -1] = torch.nan, -torch.inf

    def record(compute: Callable[[GreedyTensors, Tensor, Tensor, int], None]) -> tuple[Tensor, ...]:
        step = StepTensors(
            positions_N=positions_N.clone(),
            longest_N=torch.stack([positions_N + 1 + at_N % 2, positions_N], 1)[:, 0],
            is_live_N=is_live_N.clone(),
            tokens_NK=torch.zeros(shape, dtype=torch.int64, device=device),
            past_tokens_NKC=torch.full(table, 9, device=device),
            past_parents_NKC=torch.full(table, 9, device=device),
            past_log_probs_NKC=torch.full(table, 9.0, device=device),
            flags_N2=torch.zeros(slots, 2, dtype=torch.bool, device=device),
        )
        tensors = GreedyTensors(
            step=step,
            has_ended_NK=torch.arange(slots * width, device=device).view(shape) % 3 == 1,
            totals_NK=torch.ones(shape, device=device),
            lengths_NK=torch.ones(shape, dtype=torch.int64, device=device),
            eos_log_probs_NK=torch.zeros(shape, device=device),
        )
        compute(tensors, chosen_NK, log_probs_NK, 2)
        return tuple(each.float().nan_to_num(77.0, neginf=-77.0) for each in flat(tensors))

    yield "record_greedy", (partial(record, record_greedy), partial(record, record_by_parts))


def _beam_records(
    device: torch.device, dtype: torch.dtype, sizes: Sizes
) -> Iterator[tuple[str, tuple[Compute, Compute]]]:
    """Many slots, so that every rule decides some; some have broken numbers, and in some nothing ends."""
    random = torch.Generator().manual_seed(7)
    lengths, width, vocabulary, eos = sizes.lengths * 16, sizes.width, min(sizes.vocabulary, 40), 2
    slots = len(lengths)
    lengths_N, at_N = torch.tensor(lengths, device=device), torch.arange(slots, device=device)
    is_live_N, positions_N = lengths_N >= 0, lengths_N.clamp_min(0)
    options = SlotOptions(slots, device)
    sentences = [_beam_of(number, length, width) for number, length in enumerate(lengths)]
    options.assign(at_N, *SlotOptions.values(sentences, device))
    rows = options.first(slots)

    def draw(*shape: int) -> Tensor:
        return torch.rand(shape, generator=random).to(device)

    scores_NKV = 4 * draw(slots, width, vocabulary)
    scores_NKV[..., eos] += 6 * draw(slots, 1)
    scores_NKV[at_N % 11 == 1, -1], scores_NKV[at_N % 7 == 2, :, eos] = torch.nan, -torch.inf
    ranking_NKV = scores_NKV.log_softmax(2)
    totals_NK = -(positions_N[:, None] + 1) * draw(slots, width).sort(1).values
    totals_NK[at_N % 5 == 3, 1:] = -torch.inf
    pool_NKX = torch.stack([-draw(slots, width).sort(1).values, *draw(3, slots, width)], 2)
    pool_NKX[(draw(slots, width) < 0.5).cummax(1).values] = -torch.inf
    before = totals_NK, (pool_NKX[..., 0] > -torch.inf).sum(1), pool_NKX

    def results(search: Sequence[Tensor], past: Sequence[Tensor], *others: Tensor) -> tuple[Tensor, ...]:
        """What counts: of slots that were live and are not broken, of hypotheses that there are."""
        counts_N = is_live_N & ~ranking_NKV.isnan().any(2).any(1)
        totals_NK, num_finished_N, pool_NKX = search
        pool_NKX = pool_NKX.where(pool_NKX[..., :1] > -torch.inf, 0)
        of_rows = (*(each.where(totals_NK[..., None] > -torch.inf, 0) for each in past), pool_NKX)
        kept = [each.where(counts_N[:, None, None], 0) for each in (totals_NK[..., None], *of_rows)]
        numbers = (*kept, num_finished_N.where(counts_N, 0), *others)
        return tuple(each.float().nan_to_num(77.0, neginf=-77.0) for each in numbers)

    def fused() -> tuple[Tensor, ...]:
        past = Backpointers(slots, width, sizes.capacity + 1, device).tensors(slots)
        search = [each.clone() for each in before]
        step = StepTensors(
            positions_N=positions_N.clone(),
            longest_N=rows.longest_N,
            is_live_N=is_live_N.clone(),
            tokens_NK=torch.zeros(slots, width, dtype=torch.int64, device=device),
            past_tokens_NKC=past[0],
            past_parents_NKC=past[1],
            past_log_probs_NKC=past[2],
            flags_N2=torch.zeros(slots, 2, dtype=torch.bool, device=device),
        )
        tensors = BeamTensors(
            step=step,
            totals_NK=search[0],
            num_finished_N=search[1],
            pool_NKX=search[2],
            num_hypotheses_N=rows.num_hypotheses_N,
            stop_N=rows.stop_N,
            enough_N=rows.enough_N,
            length_exponent_N=rows.length_exponent_N,
            length_offset_N=rows.length_offset_N,
            length_scale_N=rows.length_scale_N,
        )
        likeliest = ranking_NKV.topk(min(2 * width, vocabulary), 2)
        parents_NK = record_beams(tensors, *likeliest, eos)
        chosen = step.tokens_NK[..., None], parents_NK[..., None]
        return results(search, (*past, *chosen), step.positions_N, step.is_live_N, step.flags_N2)

    def by_parts() -> tuple[Tensor, ...]:
        search = BeamSearch(slots, width, 0, vocabulary, eos, device)
        for own, given in zip(search.tensors(slots), before, strict=True):
            own.copy_(given)
        step = StepOutput(
            positions_N=positions_N,
            ranking_NKV=ranking_NKV.clone(),
            model_NKV=ranking_NKV,
            attention_NKS=None,
            is_source_NS=torch.zeros(slots, 0, dtype=torch.bool, device=device),
            is_live_N=is_live_N,
            options=rows,
            features=ActiveFeatures(beam_search=True),
        )
        choice, backpointers = search.advance(step), Backpointers(slots, width, sizes.capacity + 1, device)
        backpointers.record(positions_N, choice)
        after_N, is_broken_N = positions_N + is_live_N, ranking_NKV.isnan().any(2).any(1)
        goes_on_N = is_live_N & (after_N < rows.longest_N) & ~choice.settled_N & ~is_broken_N
        chosen = choice.tokens_NK[..., None], cast(Tensor, choice.parents_NK)[..., None]
        past = *backpointers.tensors(slots), *chosen
        return results(
            search.tensors(slots), past, after_N, goes_on_N, torch.stack([goes_on_N, is_broken_N], 1)
        )

    yield "record_beams", (fused, by_parts)


def _beam_of(number: int, length: int, width: int) -> Sentence:
    """A sentence with options of its own that may get a few tokens more than `length`."""
    options = DecodeOptions(
        strategy="beam",
        beam_size=width,
        num_hypotheses=1 + number % width,
        stop=get_args(Stop)[number % len(STOPS)],
        patience=1 + 0.5 * (number % 2),
        length_penalty=0.4 * (number % 4),
        length_penalty_form="gnmt" if number % 3 else "power",
        max_length=max(length, 0) + 1 + number % 4 // 2 * 9,
    )
    config = TransformerConfig(source_vocab_size=8, target_vocab_size=8, model_dim=8, num_heads=1)
    return Sentence.admit(DecodeRequest((5, config.eos_id), options), config)


def _norms(
    device: torch.device, dtype: torch.dtype, sizes: Sizes
) -> Iterator[tuple[str, tuple[Compute, Compute]]]:
    random = torch.Generator().manual_seed(2)
    dim = sizes.heads * sizes.head_dim
    shape = 2, len(sizes.lengths), sizes.width, dim
    stream, update = torch.randn(shape, generator=random).to(device, dtype)
    for form in get_args(NormForm):
        norm = layer_norm(
            TransformerConfig(
                source_vocab_size=8, target_vocab_size=8, norm_form=form, model_dim=dim, num_heads=1
            )
        )
        for parameter in norm.parameters():
            parameter.data += torch.randn(dim, generator=random) / 4
        norm = norm.to(device, dtype).requires_grad_(requires_grad=False)
        compute = partial(add_norm, stream, None, norm, form)
        yield f"norm, {form}", (partial(compute, is_fused=True), partial(compute, is_fused=False))

        def added(is_fused: bool, norm: torch.nn.Module = norm, form: NormForm = form) -> tuple[Tensor, ...]:
            return add_norm(stream, update.clone(), norm, form, is_fused=is_fused)

        yield f"add_norm, {form}", (partial(added, is_fused=True), partial(added, is_fused=False))
