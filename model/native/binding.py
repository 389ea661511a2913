"""Selects the native library for this processor; declares its functions, and the structs that they take."""

import ctypes
import logging
import os
import platform
import weakref
from collections.abc import Callable, Mapping, Sequence
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
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from model.errors import ConfigError, NativeError
from model.native.build import VARIANTS, is_intact, library_path

logger = logging.getLogger(__name__)

ABI_VERSION = 12
ENVIRONMENT = "DRAGOMAN_NATIVE"

_CPU_INFO = Path("/proc/cpuinfo")
# The instructions that the flags of each variant let the compiler use, by their names in Linux.
_AVX2 = frozenset(("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"))
_AVX512 = _AVX2.union(
    ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16")
)
_AMX = _AVX512.union(("amx_tile", "amx_bf16", "amx_int8"))
_REQUIRED: Mapping[str, frozenset[str]] = {"amx": _AMX, "avx512": _AVX512, "avx2": _AVX2}

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


Signature = tuple[Any, Sequence[Any]]
"""Types of a result and of the arguments."""

_FUNCTIONS: Mapping[str, Signature] = {
    "network_create": (c_void_p, (POINTER(NativeConfig), ReadTensor, c_int32)),
    "network_weight_bytes": (c_int64, (c_void_p,)),
    "network_slot_bytes": (c_int64, (c_void_p,)),
    "network_free": (None, (c_void_p,)),
    "session_create": (c_void_p, (c_void_p, POINTER(SessionConfig))),
    "session_admit": (c_int32, (c_void_p, POINTER(RequestStruct), c_int32)),
    "session_run": (c_int32, (c_void_p, c_int32, c_void_p, POINTER(ProgressView))),
    "session_drop": (None, (c_void_p, POINTER(c_int64), c_int32)),
    "session_stable_prefix": (c_int32, (c_void_p, c_int64, POINTER(c_int32), c_int32)),
    "session_num_free_slots": (c_int32, (c_void_p,)),
    "session_free": (None, (c_void_p,)),
}


class Library:
    """The functions of one library. Calls release the interpreter's lock.

    A function that fails raises NativeError, or MemoryError if the library could not allocate memory.

    Args:
        path: Path of the shared library.

    Attributes:
        name: File name without its suffix.

    Raises:
        NativeError: If the library is damaged, cannot be loaded, or has another ABI version.
    """

    def __init__(self, path: Path) -> None:
        if not is_intact(path):
            raise NativeError(
                f"the native library {path.name} is damaged: `python -m model.native.build` repairs it"
            )
        try:
            self._functions = ctypes.CDLL(str(path))
            version = self._functions.dragoman_abi_version()
        except (OSError, AttributeError) as error:
            raise NativeError(f"the native library cannot be loaded: {error}") from error
        self.name = path.stem
        if version != ABI_VERSION:
            raise NativeError(f"{path} must have ABI version {ABI_VERSION}, but has {version} instead")
        if not self._functions.dragoman_request_instructions():
            raise NativeError(f"the system denies {path.name} the use of this processor's instructions")
        self._functions.dragoman_error.restype = c_char_p
        self.add_functions(self, _FUNCTIONS)

    if TYPE_CHECKING:  # the functions of `_FUNCTIONS`

        def __getattr__(self, name: str) -> Callable[..., int]: ...

    def add_functions(self, owner: object, functions: Mapping[str, Signature]) -> None:
        """Make functions of the library attributes of an object.

        Args:
            owner: The object.
            functions: By their names without `dragoman_`.
        """
        for name, (result, arguments) in functions.items():
            function = getattr(self._functions, f"dragoman_{name}")
            function.restype, function.argtypes = result, list(arguments)
            if result is not None:
                function.errcheck = self._checked
            setattr(owner, name, function)

    def _checked(self, result: int | None, *_: object) -> int:
        """Returns a result; a null address or a negative number says that the function has failed."""
        if result is not None and result >= 0:
            return result
        if self._functions.dragoman_is_out_of_memory():
            raise MemoryError("there is no memory for this in the native library")
        raise NativeError(self._functions.dragoman_error().decode())


def freed_with(owner: object, free: Callable[[int], object], address: int) -> "weakref.finalize[..., object]":
    """Free an object of the library with its owner; not at exit, when a thread may still use it."""
    finalizer = weakref.finalize(owner, free, address)
    finalizer.atexit = False
    return finalizer


def load_library(choice: str | None = None) -> Library:
    """Load the fastest library that is built, intact and runs on this processor.

    Args:
        choice: `amx`, `avx512` or `avx2` for that library, `off` for none, `auto` for the fastest. By
            default the value of DRAGOMAN_NATIVE, or `auto`.

    Raises:
        NativeError: If there is no such library, with the reason.
        ConfigError: If the choice is unknown, or the chosen library does not work here.
    """
    choice = choice or os.environ.get(ENVIRONMENT) or "auto"
    if choice == "off":
        raise NativeError(f"{ENVIRONMENT} is off")
    if choice not in ("auto", *VARIANTS):
        raise ConfigError(ENVIRONMENT, "one of " + ", ".join(("auto", "off", *VARIANTS)), choice)
    try:
        return _fastest(choice)
    except NativeError as reason:
        if choice == "auto":
            raise
        raise ConfigError(ENVIRONMENT, f"auto, or one that works here ({reason})", choice) from reason


def _fastest(choice: str) -> Library:
    runnable = [variant for variant in runnable_variants() if choice in ("auto", variant)]
    if not runnable:
        place = f"{platform.system()} on {platform.machine()}"
        wanted = "avx2" if choice == "auto" else choice
        raise NativeError(
            f"the native library needs Linux on x86_64 with {wanted}, which {place} is not here"
        )
    built = [path for path in map(library_path, runnable) if path.exists()]
    if not built:
        raise NativeError("the native library is not built: run `python -m model.native.build`")
    for path in built[:-1]:
        try:
            return _loaded(path)
        except NativeError as reason:
            logger.warning("falling back to the next library: %s", reason)
    return _loaded(built[-1])


def runnable_variants() -> Sequence[str]:
    """The instruction sets of this processor, the fastest first."""
    return [variant for variant in VARIANTS if _REQUIRED[variant] <= _processor_features()]


@cache
def _loaded(path: Path) -> Library:
    return Library(path)


@cache
def _processor_features() -> frozenset[str]:
    """The features of the first processor by their names in Linux; empty if they are unknown."""
    if platform.machine() != "x86_64" or not _CPU_INFO.exists():
        return frozenset()
    for line in _CPU_INFO.read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "flags":
            return frozenset(value.split())
    return frozenset()
