"""⑤ A network's weights and the running batch in the native library: no Python between steps. No torch."""

import ctypes
import hashlib
import math
import struct
import weakref
from collections.abc import Collection, Sequence
from itertools import count
from typing import Any, TypeVar

from model.config import TransformerConfig
from model.decode_request import STOPS, Hypothesis
from model.decoding.runner import Interrupt, Progress, Result, StepRecord
from model.decoding.sentence import Sentence
from model.errors import DecodingError, NativeError, NotFiniteError
from model.native.binding import (
    DONE,
    NOT_A_NUMBER,
    HypothesisView,
    Library,
    NativeConfig,
    OptionsStruct,
    ProgressView,
    RequestStruct,
    ResultView,
    SessionConfig,
    StepRecordView,
    freed_with,
    load_library,
)
from model.native.shared_weights import SharedMemory
from model.native.tensors import TensorReader, Weights
from model.network.parameters import parameter_shapes
from model.validators import require, require_integer

_PRECISIONS = {"float32": 0, "bfloat16": 1, "int8": 2}
_ACTIVATIONS = {"relu": 0, "gelu": 1, "silu": 2, "gelu_tanh": 3}
_NORM_FORMS = {"variance": 0, "standard_deviation": 1, "root_mean_square": 2}
_POSITIONS = {"sinusoidal": 0, "learned": 1, "relative": 2, "rotary": 3, "relative_vectors": 4}
_EQUAL_FIELDS = (
    *("source_vocab_size", "target_vocab_size", "model_dim", "head_dim", "ffn_dim", "num_heads"),
    *("num_encoder_layers", "num_decoder_layers", "max_positions", "sinusoid_offset", "relative_buckets"),
    *("relative_max_distance", "norm_epsilon", "logit_scale"),
)
"""Fields of TransformerConfig that NativeConfig has under the same name."""
LONGEST_INT8_SUM = 2**31 // (128 * 128) - 1
"""The most products of two int8 numbers whose sum always fits an int32."""
_LARGEST_SIZE = 2**30  # twice as much (distances in both directions) still fits an int32
_STRATEGIES = {"greedy": 0, "beam": 1, "sample": 2}
_LENGTH_PENALTY_FORMS = {"power": 0, "gnmt": 1}
_LARGEST_ID = 2**31 - 1  # ctypes silently truncates larger numbers

View = TypeVar("View", bound=ctypes.Structure)


class NativeNetwork:
    """An encoder-decoder in the native library.

    Args:
        config: Configuration of the network.
        weights: Tensors by the names of the Transformer's `state_dict()`, tied ones at least by the first
            name; they are copied one after the other and need not live on.
        precision: Precision of the weights in the large products: `float32`, `bfloat16` or `int8`.
        library: The library to use; by default the fastest one for this processor.
        memory: A file for the packed weights, which other processes map too; None for memory of this process
            only. If another process has packed them, the tensors are not read. It is closed with the network.

    Attributes:
        config: As given.
        precision: As given.
        binding: The library's functions.

    Raises:
        NativeError: If there is no library, or it does not support the network.
    """

    def __init__(
        self,
        config: TransformerConfig,
        weights: Weights,
        precision: str = "float32",
        *,
        library: Library | None = None,
        memory: SharedMemory | None = None,
    ) -> None:
        native_config = _native_config(config, precision)
        self.config, self.precision = config, precision
        self.binding = library or load_library()
        label = _label(self.binding, native_config)
        if memory is not None and memory.is_packed and memory.label() != label:
            raise NativeError("the weights of another process are of another network or library")
        reader = TensorReader(weights, parameter_shapes(config))
        descriptor = -1 if memory is None else memory.descriptor
        try:
            self.address = self.binding.network_create(native_config, reader.callback, descriptor)
        except NativeError:
            if reader.error is not None:
                raise reader.error from None
            raise
        freed_with(self, self.binding.network_free, self.address)
        if memory is not None:
            weakref.finalize(self, memory.close)
            if not memory.is_packed:
                memory.publish(label)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the packed weights."""
        return self.binding.network_weight_bytes(self.address)

    @property
    def kv_slot_bytes(self) -> int:
        """Bytes of a KV slot: the keys and values of one position in all decoder layers."""
        return self.binding.network_slot_bytes(self.address)


def _label(library: Library, config: NativeConfig) -> bytes:
    """What packed weights depend on, except for the weights themselves."""
    return hashlib.sha512(library.name.encode() + bytes(config)).digest()


def _native_config(config: TransformerConfig, precision: str) -> NativeConfig:
    if not config.num_encoder_layers or not config.num_decoder_layers:
        raise NativeError("the native library computes encoder-decoders only")
    if precision not in _PRECISIONS:
        raise NativeError(f"the native library computes in {', '.join(_PRECISIONS)}, not in {precision}")
    for name, value in config.to_dict().items():
        if isinstance(value, int) and value > _LARGEST_SIZE:
            raise NativeError(
                f"the native library computes with {name} up to {_LARGEST_SIZE}, not with {value}"
            )
    longest = max(config.model_dim, config.heads_dim, config.ffn_dim)
    if precision == "int8" and longest > LONGEST_INT8_SUM:
        raise NativeError(
            f"the native library computes int8 sums of up to {LONGEST_INT8_SUM} products, not of {longest}"
        )
    return NativeConfig(
        **{name: getattr(config, name) for name in _EQUAL_FIELDS},
        activation=_ACTIVATIONS[config.activation],
        is_pre_norm=config.norm_position == "pre",
        has_final_norm=config.final_norm,
        norm_form=_NORM_FORMS[config.norm_form],
        has_gated_ffn=config.gated_ffn,
        has_recurrent_cells=config.decoder_memory == "ssru",
        positions=_POSITIONS[config.positions],
        has_sinusoid_halves=config.sinusoid_layout == "halves",
        has_sinusoid_endpoint=config.sinusoid_endpoint,
        scales_embeddings=config.scale_embeddings,
        precision=_PRECISIONS[precision],
        embedding_norm_epsilon=config.embedding_norm_epsilon or config.norm_epsilon,
        attention_scale=config.attention_scale or 1 / math.sqrt(config.head_dim),
    )


class NativeRunner:
    """The running batch in one session of the native library; see Runner and decoding/session.h.

    Args:
        network: May be shared with other runners, each on a thread of its own.
        max_rows: Most hypotheses at once.
        max_kv_slots: KV slots: one for each source token, one for each token of a hypothesis; memory is
            taken as they are first used.
        never_produced: Target ids that no translation may contain, in addition to padding, BOS and the
            decoder's start: language tags, for example.

    Raises:
        ConfigError: If a bound is not positive or over 2³¹ − 1, or such an id is not in the vocabulary.
        NativeError: If there is not enough memory. The methods raise it if the library refuses what they
            ask, or if the runner is closed.
    """

    def __init__(
        self,
        network: NativeNetwork,
        *,
        max_rows: int,
        max_kv_slots: int,
        never_produced: Collection[int] = (),
    ) -> None:
        config = network.config
        require_integer("max_rows", max_rows, 1, _LARGEST_ID)
        require_integer("max_kv_slots", max_kv_slots, 1, _LARGEST_ID)
        for token in never_produced:
            require(0 <= token < config.target_vocab_size, "never_produced", "ids of the vocabulary", token)
        never = integers(config.never_produced(never_produced))
        session = SessionConfig(
            max_rows=max_rows,
            max_slots=max_kv_slots,
            start_id=config.decoder_start_id,
            eos_id=config.eos_id,
            never_produced=ctypes.addressof(never),
            num_never_produced=len(never),
        )
        self._network = network  # must live as long as the session
        self._library = network.binding
        self._address = self._library.session_create(network.address, session)
        self._close = freed_with(self, self._library.session_free, self._address)
        self.max_rows, self.max_kv_slots = max_rows, max_kv_slots
        self._numbers = count()
        self._handles: dict[Sentence, int] = {}
        self._sentences: dict[int, Sentence] = {}

    @property
    def num_free_kv_slots(self) -> int:
        """The number of unused KV slots."""
        return self._library.session_num_free_slots(self._session)

    @property
    def _session(self) -> int:
        """Address of the session; NativeError if it is closed, because its memory is freed then."""
        if not self._close.alive:
            raise NativeError("the session is closed")
        return self._address

    def admit(self, sentences: Sequence[Sentence]) -> None:
        """See Runner."""
        handles = dict(zip(sentences, self._numbers, strict=False))
        kept_alive: list[object] = []
        requests = [_request(s, handle, kept_alive) for s, handle in handles.items()]
        array = (RequestStruct * len(requests))(*requests)
        self._library.session_admit(self._session, array, len(requests))
        self._handles |= handles
        self._sentences |= {handle: sentence for sentence, handle in handles.items()}

    def advance(self, interrupt: Interrupt, max_steps: int) -> Progress:
        """See Runner."""
        view = ProgressView()  # what it points to is valid until the next call
        self._library.session_run(self._session, max_steps, interrupt.address, view)
        started = [self._sentences[handle] for handle in read_numbers("q", view.started, view.num_started)]
        steps = _views(StepRecordView, view.steps, view.num_steps)
        results = _views(ResultView, view.results, view.num_results)
        return Progress(
            finished=[self._finish(result) for result in results],
            steps=[StepRecord(step.seconds, step.rows, step.sentences) for step in steps],
            started=started,
        )

    def drop(self, sentences: Sequence[Sentence]) -> None:
        """See Runner."""
        handles = [self._handles.pop(sentence) for sentence in sentences]
        array = (ctypes.c_int64 * len(handles))(*handles)
        self._library.session_drop(self._session, array, len(handles))
        for handle in handles:
            del self._sentences[handle]

    def stable_prefix(self, sentence: Sentence) -> tuple[int, ...]:
        """See Runner."""
        tokens = (ctypes.c_int32 * sentence.longest)()
        arguments = self._handles[sentence], tokens, sentence.longest
        return tuple(tokens[: self._library.session_stable_prefix(self._session, *arguments)])

    def close(self) -> None:
        """See Runner."""
        self._close()

    def _finish(self, view: ResultView) -> tuple[Sentence, Result]:
        sentence = self._sentences.pop(view.handle)
        del self._handles[sentence]
        return sentence, _result(view, sentence)


def integers(values: Collection[int]) -> "ctypes.Array[ctypes.c_int32]":
    """Values as the library reads them; the array must live until the library has read it."""
    return (ctypes.c_int32 * len(values))(*values)


def read_numbers(kind: str, address: int | None, count: int) -> tuple[Any, ...]:
    """A copy of numbers in the library's memory.

    Args:
        kind: Their type as `struct` has it: `i` for int32, `q` for int64, `f` for float32.
        address: Address of the first number; None for no numbers.
        count: How many there are.
    """
    if not address or not count:
        return ()
    form = f"{count}{kind}"
    return struct.unpack(form, ctypes.string_at(address, struct.calcsize(form)))


def _request(sentence: Sentence, handle: int, kept_alive: list[object]) -> RequestStruct:
    source, prefix = integers(sentence.request.source_ids), integers(sentence.prefix_ids)
    suppressed = integers([token for token in sentence.options.suppress_ids if token <= _LARGEST_ID])
    candidates = sentence.candidates
    spellings = [(spelling, i) for i, phrase in enumerate(sentence.request.phrases) for spelling in phrase]
    phrase_ids = integers([token for spelling, _ in spellings for token in spelling])
    shapes = integers([number for spelling, phrase in spellings for number in (len(spelling), phrase)])
    parts = ctypes.create_string_buffer(sentence.request.word_parts)
    kept_alive += [source, prefix, suppressed, candidates, phrase_ids, shapes, parts]
    return RequestStruct(
        handle=handle,
        source_ids=ctypes.addressof(source),
        prefix_ids=ctypes.addressof(prefix),
        suppress_ids=ctypes.addressof(suppressed),
        shortlist_ids=None if candidates is None else candidates.ctypes.data,
        phrase_ids=ctypes.addressof(phrase_ids),
        spellings=ctypes.addressof(shapes),
        word_parts=ctypes.addressof(parts) if sentence.request.word_parts else None,
        source_length=len(source),
        prefix_length=len(prefix),
        num_suppressed=len(suppressed),
        num_shortlisted=0 if candidates is None else len(candidates),
        num_phrase_ids=len(phrase_ids),
        num_spellings=len(spellings),
        num_start=len(sentence.request.start_ids),
        options=_options(sentence),
    )


def _options(sentence: Sentence) -> OptionsStruct:
    options = sentence.options
    return OptionsStruct(
        strategy=_STRATEGIES[options.strategy],
        max_rows=options.rows,
        num_hypotheses=options.num_hypotheses,
        min_length=sentence.shortest,
        max_length=sentence.longest,
        length_penalty_form=_LENGTH_PENALTY_FORMS[options.length_penalty_form],
        length_penalty=options.length_penalty,
        coverage_penalty=options.coverage_penalty if options.strategy == "beam" else 0.0,
        stop=STOPS.index(options.stop),
        patience=options.patience,
        temperature=sentence.temperature,
        top_k=sentence.top_k,
        top_p=options.top_p,
        min_p=options.min_p,
        no_repeat_ngram_size=options.no_repeat_ngram_size,
        repetition_penalty=options.repetition_penalty,
        return_alignment=options.return_alignment,
        seed=sentence.seed,
    )


def _views(kind: type[View], address: int | None, number: int) -> Sequence[View]:
    return (kind * number).from_address(address)[:] if address and number else ()


def _result(view: ResultView, sentence: Sentence) -> Result:
    if view.status == DONE:
        views = _views(HypothesisView, view.hypotheses, view.num_hypotheses)
        return [_hypothesis(hypothesis, sentence) for hypothesis in views]
    if view.status == NOT_A_NUMBER:
        return NotFiniteError()
    return DecodingError("the decoding options leave no token to produce")


def _hypothesis(view: HypothesisView, sentence: Sentence) -> Hypothesis:
    length = view.num_tokens
    log_probs = read_numbers("f", view.log_probs, length + view.has_eos)
    return Hypothesis(
        token_ids=read_numbers("i", view.tokens, length),
        score=view.score,
        log_probability=sum(log_probs),
        token_log_probabilities=log_probs,
        finished=bool(view.has_eos),
        alignment=_alignment(view, sentence.source_length) if sentence.options.return_alignment else None,
    )


def _alignment(view: HypothesisView, source_length: int) -> tuple[tuple[float, ...], ...]:
    weights = read_numbers("f", view.alignment, view.num_tokens * source_length)
    starts = range(0, len(weights), source_length)
    return tuple(weights[start : start + source_length] for start in starts)
