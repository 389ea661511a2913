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

RUNNING, DONE, NOT_A_NUMBER, NOTHING_ALLOWED = range(4)
"""Status in decoding/sentence.h."""


class NativeConfig(Structure):
    """NetworkConfig in network/config.h."""

    _fields_ = (
        *(
            (name, c_int32)
            for name in (
                *("source_vocab_size", "target_vocab_size"),
                *("model_dim", "num_heads", "num_encoder_layers", "num_decoder_layers", "ffn_dim"),
                *("head_dim", "activation", "is_pre_norm", "has_final_norm", "norm_form"),
                *("has_gated_ffn", "has_recurrent_cells"),
                *("positions", "has_sinusoid_halves", "has_sinusoid_endpoint", "sinusoid_offset"),
                *("relative_buckets", "relative_max_distance"),
                *("max_positions", "scales_embeddings", "precision"),
            )
        ),
        *(
            (name, c_float)
            for name in ("norm_epsilon", "embedding_norm_epsilon", "attention_scale", "logit_scale")
        ),
    )


class TensorRows(Structure):
    """Tensor in network/tensors.h."""

    _fields_ = (
        ("data", c_void_p),
        ("scales", c_void_p),
        ("type", c_int32),
        ("rows", c_int64),
        ("columns", c_int64),
    )


ReadTensor = CFUNCTYPE(c_int32, c_char_p, c_int64, c_int64, POINTER(TensorRows))
"""ReadTensor in network/tensors.h."""


class SessionConfig(Structure):
    """SessionConfig in decoding/session.h."""

    _fields_ = (
        ("max_rows", c_int32),
        ("max_slots", c_int32),
        ("start_id", c_int32),
        ("eos_id", c_int32),
        ("never_produced", c_void_p),
        ("num_never_produced", c_int32),
    )


class OptionsStruct(Structure):
    """Options in decoding/request.h."""

    _fields_ = (
        ("strategy", c_int32),
        ("max_rows", c_int32),
        ("num_hypotheses", c_int32),
        ("min_length", c_int32),
        ("max_length", c_int32),
        ("length_penalty_form", c_int32),
        ("length_penalty", c_float),
        ("coverage_penalty", c_float),
        ("stop", c_int32),
        ("patience", c_float),
        ("temperature", c_float),
        ("top_k", c_int32),
        ("top_p", c_float),
        ("min_p", c_float),
        ("no_repeat_ngram_size", c_int32),
        ("repetition_penalty", c_float),
        ("return_alignment", c_int32),
        ("seed", c_uint64),
    )


class RequestStruct(Structure):
    """Request in decoding/request.h."""

    _fields_ = (
        ("handle", c_int64),
        ("source_ids", c_void_p),
        ("prefix_ids", c_void_p),
        ("suppress_ids", c_void_p),
        ("shortlist_ids", c_void_p),
        ("phrase_ids", c_void_p),
        ("spellings", c_void_p),
        ("word_parts", c_void_p),
        ("source_length", c_int32),
        ("prefix_length", c_int32),
        ("num_suppressed", c_int32),
        ("num_shortlisted", c_int32),
        ("num_phrase_ids", c_int32),
        ("num_spellings", c_int32),
        ("num_start", c_int32),
        ("options", OptionsStruct),
    )


class StepRecordView(Structure):
    """StepRecord in decoding/session.h."""

    _fields_ = (("seconds", c_double), ("rows", c_int32), ("sentences", c_int32))


class HypothesisView(Structure):
    """HypothesisView in decoding/session.h."""

    _fields_ = (
        ("tokens", c_void_p),
        ("log_probs", c_void_p),
        ("alignment", c_void_p),
        ("num_tokens", c_int32),
        ("has_eos", c_int32),
        ("score", c_float),
    )


class ResultView(Structure):
    """ResultView in decoding/session.h."""

    _fields_ = (
        ("handle", c_int64),
        ("hypotheses", c_void_p),
        ("num_hypotheses", c_int32),
        ("status", c_int32),
    )


class ProgressView(Structure):
    """Progress in decoding/session.h."""

    _fields_ = (
        ("steps", c_void_p),
        ("started", c_void_p),
        ("results", c_void_p),
        ("num_steps", c_int32),
        ("num_started", c_int32),
        ("num_results", c_int32),
    )
