"""⑤ The structs that the native library reads and writes, with the layout that they have in src/."""

from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char_p,
    c_double,
    c_float,
    c_int32,
    c_int64,
    c_uint64,
    c_void_p,
)
from typing import Any

RUNNING, DONE, NOT_A_NUMBER, NOTHING_ALLOWED = range(4)
"""Status in decoding/sentence.h."""


def fields(*groups: tuple[Any, str]) -> tuple[tuple[str, Any], ...]:
    """Fields of a structure in order, from a type and the names of the fields that have it."""
    return tuple((name, kind) for kind, names in groups for name in names.split())


class NativeConfig(Structure):
    """NetworkConfig in network/config.h."""

    _fields_ = fields(
        (c_int32, "source_vocab_size target_vocab_size"),
        (c_int32, "model_dim num_heads num_encoder_layers num_decoder_layers ffn_dim"),
        (c_int32, "head_dim activation is_pre_norm has_final_norm norm_form"),
        (c_int32, "has_gated_ffn has_recurrent_cells"),
        (c_int32, "positions has_sinusoid_halves has_sinusoid_endpoint sinusoid_offset"),
        (c_int32, "relative_buckets relative_max_distance"),
        (c_int32, "max_positions scales_embeddings precision"),
        (c_float, "norm_epsilon embedding_norm_epsilon attention_scale logit_scale"),
    )


class TensorRows(Structure):
    """Tensor in network/tensors.h."""

    _fields_ = fields((c_void_p, "data scales"), (c_int32, "type"), (c_int64, "rows columns"))


ReadTensor = CFUNCTYPE(c_int32, c_char_p, c_int64, c_int64, POINTER(TensorRows))
"""ReadTensor in network/tensors.h."""


class SessionConfig(Structure):
    """SessionConfig in decoding/session.h."""

    _fields_ = fields(
        (c_int32, "max_rows max_slots start_id eos_id"),
        (c_void_p, "never_produced"),
        (c_int32, "num_never_produced"),
    )


class OptionsStruct(Structure):
    """Options in decoding/request.h."""

    _fields_ = fields(
        (c_int32, "strategy max_rows num_hypotheses min_length max_length length_penalty_form"),
        (c_float, "length_penalty coverage_penalty"),
        (c_int32, "stop"),
        (c_float, "patience temperature"),
        (c_int32, "top_k"),
        (c_float, "top_p min_p"),
        (c_int32, "no_repeat_ngram_size"),
        (c_float, "repetition_penalty"),
        (c_int32, "return_alignment"),
        (c_uint64, "seed"),
    )


class RequestStruct(Structure):
    """Request in decoding/request.h."""

    _fields_ = fields(
        (c_int64, "handle"),
        (c_void_p, "source_ids prefix_ids suppress_ids shortlist_ids phrase_ids spellings word_parts"),
        (c_int32, "source_length prefix_length num_suppressed num_shortlisted"),
        (c_int32, "num_phrase_ids num_spellings num_start"),
        (OptionsStruct, "options"),
    )


class StepRecordView(Structure):
    """StepRecord in decoding/session.h."""

    _fields_ = fields((c_double, "seconds"), (c_int32, "rows sentences"))


class HypothesisView(Structure):
    """HypothesisView in decoding/session.h."""

    _fields_ = fields(
        (c_void_p, "tokens log_probs alignment"),
        (c_int32, "num_tokens has_eos"),
        (c_float, "score"),
    )


class ResultView(Structure):
    """ResultView in decoding/session.h."""

    _fields_ = fields((c_int64, "handle"), (c_void_p, "hypotheses"), (c_int32, "num_hypotheses status"))


class ProgressView(Structure):
    """Progress in decoding/session.h."""

    _fields_ = fields((c_void_p, "steps started results"), (c_int32, "num_steps num_started num_results"))
