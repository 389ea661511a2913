"""⑤ Whether a GPU computes steps by Triton kernels: such steps are first compared with those of PyTorch.

Shapes: N slots, K hypotheses, R rows (slots × hypotheses), C positions, M model dim, V vocabulary, T ranks.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import get_args

import torch
from torch import Tensor

from model.config import NormForm, TransformerConfig
from model.decode_request import STOPS, DecodeOptions, DecodeRequest, Stop
from model.decoding.engine import DecodingEngine
from model.decoding.pytorch.device_use import using
from model.decoding.pytorch.torch_runner import TorchRunner
from model.decoding.runner import Result
from model.decoding.sentence import Sentence
from model.network.decoder_state import FIRST_KV_SLOT, ZERO_KV_SLOT, DecoderState, StepShape
from model.network.transformer import Transformer
from model.network.triton_ops.choice import Forbidden, likeliest_tokens

logger = logging.getLogger(__name__)

# In bfloat16, a few roundings of numbers of magnitude 6.
_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.25}
_LONGEST, _MOST_ROWS = 8, 64
"""Most tokens of a translation, and most hypotheses of all, in the comparison of searches."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes of the tensors of the cases.

    Attributes:
        width: Hypotheses of each slot.
        heads: Attention heads.
        head_dim: Width of a head.
        capacity: Most positions of a source and of a translation.
        lengths: Tokens that each slot has produced; −1 is an empty slot.
        source_lengths: Source tokens of each slot.
        vocabulary: Tokens of the vocabulary.
    """

    width: int = 3
    heads: int = 2
    head_dim: int = 6
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
    """Compare what the kernels compute with what PyTorch does.

    Raises:
        RuntimeError: If something differs.
    """
    for name, compute in cases(device, dtype, sizes or Sizes()).items():
        for computed, expected in zip(compute(True), compute(False), strict=True):
            worst = float((computed.float() - expected.float()).abs().max())
            if not worst <= _TOLERANCE[dtype]:
                raise RuntimeError(f"{name} by Triton kernels differs by {worst} from PyTorch in {dtype}")


Compute = Callable[[bool], tuple[Tensor, ...]]
"""Returns what is compared: computed by the kernels, or in PyTorch."""


def cases(device: torch.device, dtype: torch.dtype, sizes: Sizes) -> Mapping[str, Compute]:
    """What uses the kernels, by name; searches in float32 alone, in which their tokens are equal."""
    searches = _searches(device, sizes) if dtype == torch.float32 else ()
    return dict((*_steps(device, dtype, sizes), *_choices(device, dtype, sizes), *searches))


def _network(device: torch.device, dtype: torch.dtype, sizes: Sizes, **variant: object) -> Transformer:
    """A random network of one layer in each stack, without biases or norm weights that change nothing."""
    config = TransformerConfig.from_dict(
        {
            "source_vocab_size": sizes.vocabulary,
            "target_vocab_size": sizes.vocabulary,
            "model_dim": sizes.heads * sizes.head_dim,
            "num_heads": sizes.heads,
            "num_encoder_layers": 1,
            "num_decoder_layers": 1,
            "ffn_dim": 2 * sizes.heads * sizes.head_dim,
            "max_positions": sizes.capacity,
            "norm_position": "pre",
            "final_norm": True,
            **variant,
        }
    )
    network, random = Transformer(config).eval(), torch.Generator().manual_seed(1)
    network.requires_grad_(requires_grad=False)
    for parameter in network.parameters():
        around = parameter.mean().round()  # 1 for the weights of a norm
        deviation = parameter.shape[-1] ** -0.5 if parameter.dim() > 1 else 0.25
        parameter.copy_(around + deviation * torch.randn(parameter.shape, generator=random))
    network = network.to(device, dtype)
    network.decoder.join_projections()
    return network


def _steps(device: torch.device, dtype: torch.dtype, sizes: Sizes) -> Iterator[tuple[str, Compute]]:
    """Steps with each norm, and with what positions add to embeddings, to scores, and how they rotate."""
    for form, positions in zip(get_args(NormForm), ("learned", "relative", "rotary"), strict=True):
        is_biased = form != "root_mean_square"
        network = _network(device, dtype, sizes, norm_form=form, positions=positions, norm_bias=is_biased)
        tokens_NK = torch.arange(len(sizes.lengths) * sizes.width, device=device) % sizes.vocabulary
        tokens_NK = tokens_NK.view(-1, sizes.width)
        yield f"a step, {form}, {positions}", partial(_step, network, _state(network, sizes), tokens_NK)


def _state(network: Transformer, sizes: Sizes) -> DecoderState:
    """Slots at their positions, whose KV slots are in any order; those of empty ones hold NaN."""
    slots, width, capacity, device = (
        len(sizes.lengths),
        sizes.width,
        sizes.capacity,
        network.output.weight.device,
    )
    num_target, random = slots * width * capacity, torch.Generator().manual_seed(2)
    order_P = torch.randperm(num_target + slots * capacity, generator=random).to(device) + FIRST_KV_SLOT
    pool, tables = network.new_pool(len(order_P)), network.position_tables(capacity)
    state = DecoderState(pool, tables, slots=slots, width=width, capacity=capacity, source_capacity=capacity)
    lengths_N, source_lengths_N = (
        torch.tensor(each, device=device) for each in (sizes.lengths, sizes.source_lengths)
    )
    at_C, at_N = torch.arange(capacity, device=device), torch.arange(slots, device=device)
    is_source_NS = (at_C < source_lengths_N[:, None]) & (at_C % 5 != 3)
    target_kv_NKC = order_P[:num_target].view(slots, width, capacity)
    state.assign(at_N, target_kv_NKC, order_P[num_target:].view(slots, capacity), is_source_NS)
    state.positions_N.copy_(lengths_N % capacity)
    is_later_N1C = at_C >= state.positions_N[:, None, None]
    state.block_table_NKC.copy_(target_kv_NKC.masked_fill(is_later_N1C, ZERO_KV_SLOT))
    state.freeze(at_N[lengths_N < 0])
    for tensor_PHD in pool.layers[0].tensors:
        tensor_PHD[FIRST_KV_SLOT:] = torch.randn(tensor_PHD[FIRST_KV_SLOT:].shape, generator=random).to(
            device
        )
        tensor_PHD[target_kv_NKC[lengths_N < 0]] = torch.nan
    return state


def _step(network: Transformer, state: DecoderState, tokens_NK: Tensor, is_fused: bool) -> tuple[Tensor, ...]:
    """The states of live slots, and what was written: keys, values, block tables."""
    state = deepcopy(state)
    state.is_fused = is_fused
    shape = StepShape(len(tokens_NK), state.capacity, state.source_capacity)
    states_NKM = network.decode_states(tokens_NK, state, shape)[state.is_live_N]
    written = (each[FIRST_KV_SLOT:].nan_to_num() for each in state.pool.layers[0].tensors)
    return states_NKM, *written, state.block_table_NKC[state.is_live_N]


def _choices(device: torch.device, dtype: torch.dtype, sizes: Sizes) -> Iterator[tuple[str, Compute]]:
    """The likeliest tokens, with ties and forbidden ones."""
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

    def choose(bias_V: Tensor | None, top: int, is_fused: bool) -> tuple[Tensor, ...]:
        """Log-probabilities as given and as those of the tokens, and the first token."""
        bias = None if bias_V is None else bias_V.float()
        logits_RV = torch.nn.functional.linear(states_RM.float(), weight_VM.float(), bias)
        scores_RV = forbidden.scores(logits_RV[:, :vocabulary])
        if not is_fused:
            values_RT = scores_RV.topk(top, 1).values
            first_R = torch.where(scores_RV == values_RT[:, :1], at_V, vocabulary).amin(1)
            return values_RT, values_RT, first_R
        # Of equally likely tokens but the first, the kernel may take another one.
        found_RT, tokens_RT = likeliest_tokens(states_RM, weight_VM, bias_V, 1.0, forbidden, top)
        known_RT = tokens_RT.clamp(0, vocabulary - 1)
        scores_RT = scores_RV.gather(1, known_RT).masked_fill(tokens_RT != known_RT, torch.nan)
        return found_RT, scores_RT, tokens_RT[:, 0]

    for name, bias, top in (("the likeliest token", None, 1), ("the likeliest eight tokens", bias_V, 8)):
        yield name, partial(choose, bias, top)


def _searches(device: torch.device, sizes: Sizes) -> Iterator[tuple[str, Compute]]:
    """Greedy search, and beam search by every stop rule."""
    network = _network(device, torch.float32, replace(sizes, vocabulary=40), output_bias=True)
    network.output.weight *= 1.5  # so that no two tokens are about equally likely
    network.output.bias[network.config.eos_id] += 4.0  # so that some sentences end early
    beams = [_beam(number, sizes.width) for number in range(2 * len(STOPS))]
    greedy = [DecodeOptions(strategy="greedy", max_length=_LONGEST)] * 4
    for name, options in (("greedy search", greedy), ("beam search", beams)):
        yield name, partial(_search, network, device, options)


def _beam(number: int, width: int) -> DecodeOptions:
    return DecodeOptions(
        strategy="beam",
        beam_size=width,
        num_hypotheses=1 + number % width,
        stop=get_args(Stop)[number % len(STOPS)],
        patience=0.3 if number < len(STOPS) else 1.5,
        length_penalty=0.4 * (number % 4),
        length_penalty_form="gnmt" if number % 3 else "power",
        max_length=_LONGEST - number % 2,
    )


def _search(
    network: Transformer, device: torch.device, options: Sequence[DecodeOptions], is_fused: bool
) -> tuple[Tensor, ...]:
    """Score, length and tokens of all hypotheses."""
    config = network.config
    runner = TorchRunner(network, device, max_rows=_MOST_ROWS, is_fused=is_fused)
    requests = [DecodeRequest((4 + number, 5, config.eos_id), each) for number, each in enumerate(options)]
    engine, results = DecodingEngine(runner, config), dict[Sentence, Result]()
    sentences = [engine.add(request) for request in requests]
    for _ in requests:  # a faulty kernel may not let a sentence end
        results.update(engine.step(max_steps=2 * _LONGEST).finished)
    ended = (results.get(sentence) for sentence in sentences)
    found = [hypothesis for result in ended if isinstance(result, list) for hypothesis in result]
    numbers = torch.zeros(_MOST_ROWS, 2 + _LONGEST)
    for row, hypothesis in zip(numbers, found, strict=False):
        tokens = hypothesis.token_ids
        row[: 2 + len(tokens)] = torch.tensor((hypothesis.score, len(tokens), *tokens))
    return (numbers,)
