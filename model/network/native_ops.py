"""Native operators for training on a CPU, which fuse several passes of PyTorch into one.

These are dropout with the addition to the residual stream, layer norm, attention over whole sentences,
projections in bfloat16, and label-smoothed cross entropy. Each computes the same as its reference in PyTorch,
and returns None if PyTorch has to compute it: on other devices, for other number types and shapes, under
torch.compile, and without the native library.

Shapes: N sentences, Q queries, S keys, M width of all heads; R rows, I inputs, O outputs; V vocabulary.
"""

import ctypes
import logging
import math
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from model.native import operators as native
from model.native.operators import Operators, load_operators

logger = logging.getLogger(__name__)

_NUMBER_TYPES = torch.float32, torch.bfloat16
_LANES = 16
"""Most operators need rows whose length is a multiple of this."""
_INPUTS, _OUTPUTS = 32, 16
"""Projections need multiples of these."""
_WORD = 1 << 32
_INT64 = torch.iinfo(torch.int64)
_OPENMP = "libgomp*.so*", "libiomp5*.so*", "libomp*.so*"


def operators_for(*tensors: Tensor) -> Operators | None:
    """The native operators if they support these tensors; None if PyTorch has to compute."""
    if torch.compiler.is_compiling():
        return None
    if any(tensor.device.type != "cpu" or tensor.dtype not in _NUMBER_TYPES for tensor in tensors):
        return None
    return installed_operators()


@cache
def installed_operators() -> Operators | None:
    """The operators of the fastest library for this processor; None without a library."""
    operators = load_operators()
    if operators is not None:
        operators.lend_threads(address_of_threads())
    return operators


def address_of_threads() -> int | None:
    """Address of GOMP_parallel in PyTorch's OpenMP library; None if it has none that can be loaded."""
    torch_folder = Path(torch.__file__).parent
    for folder in (torch_folder / "lib", torch_folder.with_name("torch.libs")):
        for path in sorted(path for name in _OPENMP for path in folder.glob(name)):
            try:
                run = getattr(ctypes.CDLL(str(path)), "GOMP_parallel", None)
            except OSError as reason:
                logger.warning("training natively without the threads of %s: %s", path.name, reason)
                continue
            if run is not None:
                return ctypes.cast(run, ctypes.c_void_p).value
    return None


class _Context(FunctionCtx):
    """What forward saves for backward: tensors, and `rest`."""

    needs_input_grad: tuple[bool, ...]
    saved_tensors: tuple[Any, ...]
    rest: tuple[Any, ...]


def _keep(ctx: _Context, *tensors: Tensor | None, rest: tuple[Any, ...]) -> None:
    """Save for backward. Autograd hooks may move the tensors, so their addresses must not be among `rest`."""
    ctx.save_for_backward(*tensors)  # type: ignore[arg-type]
    ctx.rest = rest


def _apply(function: type[torch.autograd.Function], *arguments: object) -> Any:  # noqa: ANN401 (as PyTorch's)
    return function.apply(*arguments)


def _require_first_derivative() -> None:
    """Refuse second derivatives; called in a backward pass.

    `once_differentiable` would accept a backward pass whose upstream gradient is constant, as that of a loss.

    Raises:
        RuntimeError: If the backward pass creates a graph.
    """
    if torch.is_grad_enabled():  # in a backward pass only with create_graph=True
        raise RuntimeError(
            "native operators have first derivatives only; for create_graph=True, use PyTorch alone"
        )


def _address(tensor: Tensor | None) -> int | None:
    """Address of a contiguous tensor, which must live as long as the library may use it."""
    return None if tensor is None else tensor.data_ptr()


def _is_bfloat16(tensor: Tensor) -> bool:
    """Returns whether a tensor is bfloat16; operators support float32 otherwise."""
    return tensor.dtype == torch.bfloat16


def _dropout(rate: float) -> native.DropoutStruct:
    """A new dropout mask, whose seed is drawn from torch's global generator."""
    threshold = min(round(rate * _WORD), _WORD - 1)
    seed = int(torch.randint(_INT64.min, _INT64.max, ())) if threshold else 0
    return native.DropoutStruct(seed % (1 << 64), threshold, 1 / (1 - rate) if rate < 1 else 0.0)


def add_dropped(stream: Tensor | None, update: Tensor, rate: float) -> Tensor | None:
    """The sum stream + dropout(update), or dropout(update) alone; None if PyTorch has to compute it.

    Args:
        stream: float32, as long as the update; None for nothing.
        update: What is dropped.
        rate: Probability of dropping.
    """
    operators = operators_for(update) if stream is None else operators_for(stream, update)
    is_stream = stream is None or (not _is_bfloat16(stream) and stream.shape == update.shape)
    if operators is None or not is_stream or update.numel() % _LANES:
        return None
    result: Tensor = _apply(_AddDropped, stream, update, _dropout(rate), operators)
    return result


class _AddDropped(torch.autograd.Function):
    """dropout(update), added to a stream if there is one."""

    @staticmethod
    def forward(
        ctx: _Context,
        stream: Tensor | None,
        update: Tensor,
        dropout: native.DropoutStruct,
        operators: Operators,
    ) -> Tensor:
        ctx.rest = update.dtype, dropout, operators
        dtype = update.dtype if stream is None else stream.dtype
        return _dropped_sum(stream, update, dtype, dropout, operators)

    @staticmethod
    def backward(ctx: _Context, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        _require_first_derivative()
        of_stream = grad_output if ctx.needs_input_grad[0] else None
        return of_stream, _dropped_sum(None, grad_output, *ctx.rest), None, None


def _dropped_sum(
    stream: Tensor | None,
    update: Tensor,
    dtype: torch.dtype,
    dropout: native.DropoutStruct,
    operators: Operators,
) -> Tensor:
    update = update.contiguous()
    stream = None if stream is None else stream.contiguous()
    result = torch.empty(update.shape, dtype=dtype)
    operators.dropout_add(
        native.DropoutAdd(
            stream=_address(stream),
            update=_address(update),
            sum=_address(result),
            size=update.numel(),
            dropout=dropout,
            update_is_bfloat16=_is_bfloat16(update),
            sum_is_bfloat16=_is_bfloat16(result),
            threads=torch.get_num_threads(),
        )
    )
    return result


def norm_beside(stream: Tensor, norm: nn.Module) -> tuple[Tensor, Tensor] | None:
    """A float32 stream and its layer norm, the latter in the number type of matrix products.

    The stream is returned as well, so that the gradients of the residual path and of the norm are added in
    one pass. None if PyTorch has to compute it.
    """
    if not isinstance(norm, nn.LayerNorm) or not norm.elementwise_affine:
        return None
    if norm.normalized_shape != stream.shape[-1:] or stream.shape[-1] % _LANES:
        return None
    operators = operators_for(stream, norm.weight)
    if operators is None or _is_bfloat16(stream) or _is_bfloat16(norm.weight):
        return None
    wanted = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else torch.float32
    if wanted not in _NUMBER_TYPES:
        return None
    both: tuple[Tensor, Tensor] = _apply(
        _NormBeside, stream, norm.weight, norm.bias, norm.eps, wanted, operators
    )
    return both


class _NormBeside(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: _Context,
        stream: Tensor,
        gain: Tensor,
        shift: Tensor | None,
        epsilon: float,
        dtype: torch.dtype,
        operators: Operators,
    ) -> tuple[Tensor, Tensor]:
        rows = stream.contiguous()
        normed = torch.empty(rows.shape, dtype=dtype)
        statistics = rows.new_empty(2, rows.numel() // rows.shape[-1])
        _keep(ctx, rows, gain, shift, statistics, rest=(epsilon, operators))
        operators.norm_rows(_normed_rows(rows, gain, shift, statistics, normed, epsilon))
        ctx.set_materialize_grads(False)
        return stream, normed

    @staticmethod
    def backward(
        ctx: _Context, upstream: Tensor | None, grad_output: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        _require_first_derivative()
        if grad_output is None:
            return upstream, *(None,) * 5
        (rows, gain, shift, statistics), (epsilon, operators) = ctx.saved_tensors, ctx.rest
        grad_output = grad_output.contiguous()
        upstream = None if upstream is None else upstream.contiguous()
        of_rows, of_gain = torch.empty_like(rows), torch.empty_like(gain)
        of_shift = None if shift is None else torch.empty_like(shift)
        gradients = native.NormGradients(
            upstream=_address(upstream),
            rows=_address(of_rows),
            gain=_address(of_gain),
            shift=_address(of_shift),
        )
        described = _normed_rows(rows, gain, shift, statistics, grad_output, epsilon)
        operators.norm_rows_gradient(described, gradients)
        return of_rows, of_gain, of_shift, None, None, None


def _normed_rows(
    rows: Tensor, gain: Tensor, shift: Tensor | None, statistics: Tensor, normed: Tensor, epsilon: float
) -> native.NormedRows:
    return native.NormedRows(
        rows_in=_address(rows),
        gain=_address(gain),
        shift=_address(shift),
        normed=_address(normed),
        means=_address(statistics[0]),
        factors=_address(statistics[1]),
        rows=statistics.shape[1],
        width=rows.shape[-1],
        epsilon=epsilon,
        normed_is_bfloat16=_is_bfloat16(normed),
        threads=torch.get_num_threads(),
    )


def attend_sentences(
    queries_NQM: Tensor,
    keys_values_NS2M: Tensor,
    num_heads: int,
    mask: Tensor | None,
    *,
    causal: bool,
    rate: float,
    scale: float | None = None,
) -> Tensor | None:
    """Joined heads (N, Q, M) of dropout(softmax(s·QKᵀ))V; None if PyTorch has to compute it.

    Args:
        queries_NQM: Queries, all heads.
        keys_values_NS2M: Keys of all heads, then values.
        num_heads: Heads, each M / `num_heads` wide.
        mask: (N, 1, 1, S), True for keys that are attended to; None for all keys.
        causal: Query i sees keys 0…i.
        rate: Dropout of the attention weights.
        scale: s; None for 1/√(width of a head).
    """
    operators = operators_for(queries_NQM, keys_values_NS2M)
    (sentences, num_queries, width), num_keys = queries_NQM.shape, keys_values_NS2M.shape[1]
    is_supported = (
        queries_NQM.dtype == keys_values_NS2M.dtype
        and keys_values_NS2M.shape == (sentences, num_keys, 2 * width)
        and width % (num_heads * _LANES) == 0
        and (mask is None or (mask.dtype == torch.bool and mask.shape == (sentences, 1, 1, num_keys)))
        and not (causal and num_queries > num_keys)
    )
    if operators is None or not is_supported:
        return None
    options = _AttentionOptions(
        heads=num_heads,
        width=width // num_heads,
        scale=scale or 1 / math.sqrt(width // num_heads),
        is_causal=causal,
        dropout=_dropout(rate),
    )
    joined: Tensor = _apply(_SentenceAttention, queries_NQM, keys_values_NS2M, mask, options, operators)
    return joined


class _AttentionOptions(NamedTuple):
    """Fields of `native.SentenceAttention` that do not depend on the tensors; `width` is that of a head."""

    heads: int
    width: int
    scale: float
    is_causal: bool
    dropout: native.DropoutStruct


class _SentenceAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: _Context,
        queries: Tensor,
        keys_values: Tensor,
        mask: Tensor | None,
        options: _AttentionOptions,
        operators: Operators,
    ) -> Tensor:
        queries, keys_values = queries.contiguous(), keys_values.contiguous()
        mask = None if mask is None else mask.contiguous()
        padded = -(-keys_values.shape[1] // _LANES) * _LANES
        weights = queries.new_empty(
            len(queries), options.heads, queries.shape[1], padded, dtype=torch.float32
        )
        _keep(ctx, queries, keys_values, mask, weights, rest=(options, operators))
        joined = torch.empty_like(queries)
        described = _sentences(queries, keys_values, mask, weights, options)
        operators.attend_sentences(described, joined.data_ptr())
        return joined

    @staticmethod
    def backward(ctx: _Context, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        _require_first_derivative()
        (queries, keys_values, mask, weights), (options, operators) = ctx.saved_tensors, ctx.rest
        grad_output = grad_output.contiguous()
        of_queries, of_keys_values = torch.empty_like(queries), torch.empty_like(keys_values)
        gradients = native.AttentionGradients(
            output=_address(grad_output),
            queries=_address(of_queries),
            keys=_address(of_keys_values),
            values=_address_of_values(of_keys_values),
        )
        described = _sentences(queries, keys_values, mask, weights, options)
        operators.attend_sentences_gradient(described, gradients)
        return of_queries, of_keys_values, None, None, None


def _sentences(
    queries: Tensor, keys_values: Tensor, mask: Tensor | None, weights: Tensor, options: _AttentionOptions
) -> native.SentenceAttention:
    sentences, num_queries, width = queries.shape
    return native.SentenceAttention(
        queries=_address(queries),
        keys=_address(keys_values),
        values=_address_of_values(keys_values),
        visible=_address(mask),
        weights=_address(weights),
        query_stride=width,
        key_stride=2 * width,
        sentences=sentences,
        num_queries=num_queries,
        num_keys=keys_values.shape[1],
        is_bfloat16=_is_bfloat16(queries),
        threads=torch.get_num_threads(),
        **options._asdict(),
    )


def _address_of_values(keys_values: Tensor) -> int:
    """Address of the values, which follow the keys in each row."""
    return keys_values.data_ptr() + keys_values.shape[-1] // 2 * keys_values.element_size()


class Projection(nn.Linear):
    """`nn.Linear` that computes natively in training on a CPU under bfloat16 autocast."""

    def forward(self, states: Tensor) -> Tensor:
        """(…, I) to (…, O)."""
        projected = project(states, self.weight, self.bias) if self.training else None
        return super().forward(states) if projected is None else projected


def project(states: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor | None:
    """Wx + b, (…, I) to (…, O), as autocast computes it; None if PyTorch has to compute it.

    States are rounded to bfloat16; weights stay in float32, and so do their gradients.
    """
    if not torch.is_autocast_enabled("cpu") or torch.get_autocast_dtype("cpu") != torch.bfloat16:
        return None
    operators = operators_for(states, weight_OI)
    outputs, inputs = weight_OI.shape
    is_supported = (
        states.shape[-1] == inputs
        and states.numel() > 0
        and inputs % _INPUTS == 0
        and outputs % _OUTPUTS == 0
        and _is_plain(weight_OI)
        and (bias_O is None or (len(bias_O) == outputs and _is_plain(bias_O)))
    )
    if operators is None or not operators.has_bfloat16_products() or not is_supported:
        return None
    result: Tensor = _apply(_Projection, states.to(torch.bfloat16), weight_OI, bias_O, operators)
    return result


def _is_plain(weight: Tensor) -> bool:
    return weight.dtype == torch.float32 and weight.is_contiguous()


class _Projection(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: _Context, states: Tensor, weight_OI: Tensor, bias_O: Tensor | None, operators: Operators
    ) -> Tensor:
        states = states.contiguous()
        _keep(ctx, states, weight_OI, bias_O, rest=(operators,))
        result = torch.empty(*states.shape[:-1], len(weight_OI), dtype=torch.bfloat16)
        operators.project(_projection(states, weight_OI, bias_O), states.data_ptr(), result.data_ptr())
        return result

    @staticmethod
    def backward(ctx: _Context, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        _require_first_derivative()
        (states, weight_OI, bias_O), (operators,) = ctx.saved_tensors, ctx.rest
        grad_output = grad_output.contiguous()
        upstream, described = grad_output.data_ptr(), _projection(states, weight_OI, bias_O)
        of_states = None
        if ctx.needs_input_grad[0]:
            of_states = torch.empty_like(states)
            operators.project_gradient(described, upstream, of_states.data_ptr())
        of_weight = torch.empty_like(weight_OI)
        of_bias = None if bias_O is None else torch.empty_like(bias_O)
        results = of_weight.data_ptr(), _address(of_bias)
        operators.project_weight_gradient(described, upstream, states.data_ptr(), *results)
        return of_states, of_weight, of_bias, None


def _projection(states: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> native.Projection:
    outputs, inputs = weight_OI.shape
    return native.Projection(
        weight=_address(weight_OI),
        bias=_address(bias_O),
        rows=states.numel() // inputs,
        inputs=inputs,
        outputs=outputs,
        threads=torch.get_num_threads(),
    )


def fused_smoothed_loss(
    logits_RV: Tensor, labels_R: Tensor, *, smoothing: float, other: float, pad_id: int
) -> tuple[Tensor, Tensor] | None:
    """Smoothed loss and cross entropy, summed over all rows whose label is not padding, in nats.

    The second has no gradient. Only the normaliser of each row is saved for the gradient of the logits, which
    has their number type.

    Args:
        logits_RV: Scores of the tokens.
        labels_R: Reference tokens, int64.
        smoothing: ε, the probability that the reference tokens lack.
        other: Probability of each token that is neither the reference nor padding.
        pad_id: Label of rows that do not count.

    Returns:
        Two scalars in float32; None if PyTorch has to compute them.

    Raises:
        IndexError: If a label or `pad_id` is not an id.
        ValueError: If there is not one int64 label per row.
    """
    operators = operators_for(logits_RV)
    if operators is None:
        return None
    _require_ids(labels_R, pad_id, *logits_RV.shape)
    options = _LossOptions(pad_id=pad_id, smoothing=smoothing, other_probability=other)
    both: tuple[Tensor, Tensor] = _apply(_SmoothedLoss, logits_RV, labels_R, options, operators)
    return both


class _LossOptions(NamedTuple):
    """Fields of `native.LossRows` that do not depend on the tensors."""

    pad_id: int
    smoothing: float
    other_probability: float


class _SmoothedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: _Context, logits_RV: Tensor, labels_R: Tensor, options: _LossOptions, operators: Operators
    ) -> tuple[Tensor, Tensor]:
        logits_RV = logits_RV if logits_RV.stride(1) == 1 else logits_RV.contiguous()
        labels_R = labels_R.contiguous()
        normalisers_R = logits_RV.new_empty(len(labels_R), dtype=torch.float32)
        sums = (ctypes.c_double * 2)()
        operators.smoothed_loss(_loss_rows(logits_RV, labels_R, normalisers_R, options), sums)
        smoothed, cross_entropy = (torch.tensor(each, dtype=torch.float32) for each in sums)
        _keep(ctx, logits_RV, labels_R, normalisers_R, rest=(options, operators))
        ctx.mark_non_differentiable(cross_entropy)
        return smoothed, cross_entropy

    @staticmethod
    def backward(ctx: _Context, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        _require_first_derivative()
        (logits_RV, labels_R, normalisers_R), (options, operators) = ctx.saved_tensors, ctx.rest
        rows = _loss_rows(logits_RV, labels_R, normalisers_R, options)
        gradient_RV = torch.empty(logits_RV.shape, dtype=logits_RV.dtype)
        operators.smoothed_loss_gradient(rows, float(upstream[0]), gradient_RV.data_ptr())
        return gradient_RV, None, None, None


def _loss_rows(
    logits_RV: Tensor, labels_R: Tensor, normalisers_R: Tensor, options: _LossOptions
) -> native.LossRows:
    return native.LossRows(
        logits=_address(logits_RV),
        labels=_address(labels_R),
        normalisers=_address(normalisers_R),
        row_stride=logits_RV.stride(0),
        rows=len(logits_RV),
        vocabulary=logits_RV.shape[1],
        is_bfloat16=_is_bfloat16(logits_RV),
        threads=torch.get_num_threads(),
        **options._asdict(),
    )


def _require_ids(labels_R: Tensor, pad_id: int, rows: int, vocabulary: int) -> None:
    """Refuse labels that would make the native code read beyond the logits."""
    if labels_R.dtype != torch.int64 or len(labels_R) != rows:
        found = f"{len(labels_R)} of {labels_R.dtype}"
        raise ValueError(f"labels must be {rows} numbers of torch.int64, but are {found} instead")
    if not 0 <= pad_id < vocabulary:
        raise IndexError(f"pad_id must be an id from 0 to {vocabulary - 1}, but is {pad_id} instead")
    lowest, highest = map(int, labels_R.aminmax()) if len(labels_R) else (0, 0)
    if lowest < 0 or highest >= vocabulary:
        raise IndexError(f"labels must be ids from 0 to {vocabulary - 1}, but go from {lowest} to {highest}")
