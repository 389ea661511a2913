"""ⓕ Marian's Transformer as ours: what `special:model.yml` says, and where each parameter is. No torch.

Marian's decoder begins with a vector of zeros. Here that is the embedding of `<s>`, which is appended to the
vocabulary together with `<pad>`; neither is ever produced.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, cast

import numpy as np

from model.checkpoint.importing.fields import Fields
from model.checkpoint.importing.foreign import constant, stacked
from model.checkpoint.importing.marian.file import CONFIGURATION, MarianFile
from model.checkpoint.importing.variables import Rows
from model.checkpoint.weights import StoredTensor
from model.checkpoint.writing import Read
from model.config import Tie, TransformerConfig
from model.errors import CheckpointError, ConfigError

_MAX_LENGTH = 512
_EPSILON = 1e-9
_IMPOSSIBLE = -1e4  # within float16, and no probability after the softmax
_ACTIVATIONS: Mapping[str, Literal["relu", "silu"]] = {"swish": "silu", "relu": "relu"}
_EARLIEST_PRE_NORM = (1, 11)
"""Earlier releases left out the norm of self-attention's keys and values."""
_ALLOWED: dict[str, Sequence[object]] = {
    "type": ("transformer",),
    "input-types": ([],),
    "lemma-dim-emb": (0,),
    "right-left": (False,),
    "transformer-decoder-autoreg": ("self-attention", "rnn"),
    "transformer-disable-position-embeddings": (False,),
    "transformer-ffn-activation": tuple(_ACTIVATIONS),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-no-projection": (False,),
    "transformer-pool": (False,),
    "transformer-postprocess-emb": ("", "d", "n", "nd", "dn"),
    "transformer-postprocess-top": ("", "d", "n", "nd", "dn"),
    "ulr": (False,),
}
_ALLOWED_WITH_RNN: dict[str, Sequence[object]] = {
    "dec-cell": ("ssru",),
    "layer-normalization": (False,),
    "transformer-rnn-projection": (False,),
}
"""Values of fields that can be computed; absent fields have Marian's default, the first of them."""
_DEFAULTS: Mapping[str, object] = {
    **{name: allowed[0] for name, allowed in (_ALLOWED | _ALLOWED_WITH_RNN).items()},
    **dict.fromkeys(("tied-embeddings", "tied-embeddings-src", "tied-embeddings-all"), False),
    "transformer-decoder-dim-ffn": 0,
    "transformer-tied-layers": [],
}


class MarianNetwork:
    """The Transformer of an opened weight file.

    Attributes:
        source_size: Rows of the source embedding.
        target_size: Rows of the target embedding.
        has_shared_vocabulary: Whether both sides have one embedding.
    """

    def __init__(self, file: MarianFile) -> None:
        """Checks that the network can be computed.

        Raises:
            CheckpointError: With the field of special:model.yml at fault.
        """
        self._file = file
        self._fields = fields = Fields(file.path, file.config, _DEFAULTS, CONFIGURATION)
        self._is_recurrent = fields.get("transformer-decoder-autoreg") == "rnn"
        for name, allowed in {**_ALLOWED, **(_ALLOWED_WITH_RNN if self._is_recurrent else {})}.items():
            fields.only(name, *allowed)
        self._is_pre_norm = self._norms_first()
        self.has_shared_vocabulary = fields.flag("tied-embeddings-all") or fields.flag("tied-embeddings-src")
        source, target = ("Wemb", "Wemb") if self.has_shared_vocabulary else ("encoder_Wemb", "decoder_Wemb")
        self._source, self._target = source, target
        self.source_size, self.target_size = file.lengths(source)[0], file.lengths(target)[0]

    def config(self, eos_id: int, unk_id: int) -> TransformerConfig:
        """Returns the configuration of our network.

        Args:
            eos_id: Id of `</s>` on both sides.
            unk_id: Id of `<unk>` on both sides.

        Raises:
            CheckpointError: With the field of special:model.yml at fault.
        """
        try:
            return self._configured(eos_id, unk_id)
        except ConfigError as error:
            raise CheckpointError(f"{self._file.path}: {CONFIGURATION}: {error}") from error

    def _configured(self, eos_id: int, unk_id: int) -> TransformerConfig:
        rows = self._rows
        has_table = "Wpos" in self._file
        return TransformerConfig(
            source_vocab_size=rows + 2,
            target_vocab_size=rows + 2,
            model_dim=self._fields.integer("dim-emb"),
            num_heads=self._fields.integer("transformer-heads"),
            num_encoder_layers=self._fields.integer("enc-depth"),
            num_decoder_layers=self._fields.integer("dec-depth"),
            ffn_dim=max(self._ffn_dims),
            activation=self._fields.choice("transformer-ffn-activation", _ACTIVATIONS),
            norm_position="pre" if self._is_pre_norm else "post",
            final_norm="n" in self._fields.text("transformer-postprocess-top"),
            norm_epsilon=_EPSILON,
            decoder_memory="ssru" if self._is_recurrent else "attention",
            output_bias=self._has_output_bias,
            positions="learned" if has_table else "sinusoidal",
            sinusoid_layout="halves",
            sinusoid_endpoint=not has_table,
            max_positions=self._file.lengths("Wpos")[0] if has_table else _MAX_LENGTH,
            embedding_norm="n" in self._fields.text("transformer-postprocess-emb"),
            scale_embeddings=not has_table,
            tie=self._tie,
            pad_id=rows + 1,
            bos_id=rows,
            eos_id=eos_id,
            unk_id=unk_id,
            decoder_start_id=rows,
        )

    def tensors(self, config: TransformerConfig) -> Mapping[str, Read]:
        """Returns how to read each parameter, tied ones once."""
        return dict(self._named(config))

    @property
    def version(self) -> str:
        """Release of Marian that trained the model."""
        return self._fields.text("version")

    @property
    def _rows(self) -> int:
        """Ids of the larger vocabulary, as special ids are the same on both sides."""
        return max(self.source_size, self.target_size)

    @property
    def _tie(self) -> Tie:
        is_tied = [self._fields.flag(f"tied-embeddings{each}") for each in ("", "-all")]
        has_matrix_of_its_own = not any(is_tied)
        if self.has_shared_vocabulary:
            return "embeddings" if has_matrix_of_its_own else "all"
        return "none" if has_matrix_of_its_own else "decoder"

    @property
    def _has_output_bias(self) -> bool:
        return "decoder_ff_logit_out_b" in self._file or self.target_size < self._rows

    @property
    def _ffn_dims(self) -> tuple[int, int]:
        """Inner widths of the encoder's and the decoder's feed-forward blocks."""
        encoder = self._fields.integer("transformer-dim-ffn")
        return encoder, self._fields.integer("transformer-decoder-dim-ffn") or encoder

    def _named(self, config: TransformerConfig) -> Iterator[tuple[str, Read]]:
        for side, name in (("source", self._source), ("target", self._target)):
            if side == "source" or not self.has_shared_vocabulary:
                yield f"{side}_embedding.tokens.weight", self._embedding(name)
            if config.positions == "learned":
                yield f"{side}_embedding.positions.weight", self._file.table("Wpos")
            if config.embedding_norm:
                stack = "encoder" if side == "source" else "decoder"
                yield from self._norm(f"{side}_embedding.norm", f"{stack}_emb", "_pre")
        for layer in range(config.num_encoder_layers):
            ours, theirs = f"encoder.layers.{layer}", f"encoder_l{layer + 1}"
            yield from self._attention(f"{ours}.attention", f"{theirs}_self")
            yield from self._feed_forward(ours, theirs, config.ffn_dim)
        for layer, number in enumerate(self._decoder_layers(config.num_decoder_layers)):
            ours, theirs = f"decoder.layers.{layer}", f"decoder_l{number}"
            if self._is_recurrent:
                yield from self._cell(ours, f"{theirs}_rnn")
            else:
                yield from self._attention(f"{ours}.attention", f"{theirs}_self")
            yield from self._attention(f"{ours}.cross", f"{theirs}_context")
            yield from self._feed_forward(ours, theirs, config.ffn_dim)
        if config.final_norm:
            yield from self._norm("encoder.norm", "encoder_top", "")
            yield from self._norm("decoder.norm", "decoder_top", "")
        yield from self._output(config)

    def _attention(self, ours: str, theirs: str) -> Iterator[tuple[str, Read]]:
        for name, letter in (("query", "q"), ("output", "o")):
            yield f"{ours}.{name}.weight", self._file.matrix(f"{theirs}_W{letter}")
            yield f"{ours}.{name}.bias", self._file.vector(f"{theirs}_b{letter}")
        yield f"{ours}.key_value.weight", stacked(*(self._file.matrix(f"{theirs}_W{each}") for each in "kv"))
        yield f"{ours}.key_value.bias", stacked(*(self._file.vector(f"{theirs}_b{each}") for each in "kv"))
        yield from self._norm(f"{ours}_residual.norm", f"{theirs}_Wo")

    def _cell(self, ours: str, theirs: str) -> Iterator[tuple[str, Read]]:
        yield f"{ours}.ssru.forget.weight", self._file.matrix(f"{theirs}_Wf")
        yield f"{ours}.ssru.forget.bias", self._file.vector(f"{theirs}_bf")
        yield f"{ours}.ssru.input.weight", self._file.matrix(f"{theirs}_W")
        norm = theirs if self._is_pre_norm else f"{theirs}_ffn"
        yield from self._norm(f"{ours}.attention_residual.norm", norm)

    def _feed_forward(self, ours: str, theirs: str, width: int) -> Iterator[tuple[str, Read]]:
        # Zeros make up for a stack whose blocks are narrower than the other's.
        for name, number in (("input", 1), ("output", 2)):
            weight = self._file.matrix(f"{theirs}_ffn_W{number}")
            bias = self._file.vector(f"{theirs}_ffn_b{number}")
            missing = width - self._file.lengths(f"{theirs}_ffn_W{number}")[number % 2]
            if missing > 0 and number == 1:
                weight, bias = _with_rows(weight, missing), _with_rows(bias, missing)
            elif missing > 0:
                weight = _with_columns(weight, missing)
            yield f"{ours}.feed_forward.{name}.weight", weight
            yield f"{ours}.feed_forward.{name}.bias", bias
        yield from self._norm(f"{ours}.feed_forward_residual.norm", f"{theirs}_ffn_ffn")

    def _norm(self, ours: str, theirs: str, suffix: str | None = None) -> Iterator[tuple[str, Read]]:
        if suffix is None:
            suffix = "_pre" if self._is_pre_norm else ""
        yield f"{ours}.weight", self._file.vector(f"{theirs}_ln_scale{suffix}")
        yield f"{ours}.bias", self._file.vector(f"{theirs}_ln_bias{suffix}")

    def _output(self, config: TransformerConfig) -> Iterator[tuple[str, Read]]:
        name = "decoder_ff_logit_out"
        if config.tie in ("none", "embeddings"):
            is_legacy = f"{name}_W" in self._file
            weight = (
                self._extended(self._file.matrix(f"{name}_W")) if is_legacy else self._embedding(f"{name}_Wt")
            )
            yield "output.weight", weight
        if config.output_bias:
            has_bias = f"{name}_b" in self._file
            bias = self._file.vector(f"{name}_b") if has_bias else constant(np.zeros(self.target_size))
            yield "output.bias", self._extended(bias, _IMPOSSIBLE)

    def _embedding(self, name: str) -> Read:
        """A matrix of all pieces with rows for those that Marian lacks, see `_extended`."""
        rows = np.arange(self._rows + 2)
        return self._file.table(name, Rows(np.where(rows < self._file.lengths(name)[0], rows, -1)))

    def _extended(self, read: Read, value: float = 0.0) -> Read:
        """Adds the rows of `<s>` and `<pad>`, and those by which the other vocabulary is larger."""
        return _with_rows(read, self._rows + 2, value, is_total=True)

    def _decoder_layers(self, depth: int) -> Sequence[int]:
        """Marian's numbers of the decoder's layers, which may share their weights."""
        tied = self._fields.get("transformer-tied-layers")
        if not tied:
            return range(1, depth + 1)
        fits = isinstance(tied, list) and len(tied) == depth and all(isinstance(each, int) for each in tied)
        if not fits:
            raise self._fields.refusal("transformer-tied-layers", f"{depth} numbers of layers")
        return cast(Sequence[int], tied)

    def _norms_first(self) -> bool:
        """Returns whether norms come before the blocks; refuses other operations than norm and addition."""
        before, after = (self._fields.text(f"transformer-{each}process") for each in ("pre", "post"))
        order = before.replace("d", ""), after.replace("d", "")
        if order == ("", "an"):
            return False
        if order != ("n", "a"):
            wanted = "da after a preprocess of n, or dan without one"
            raise self._fields.refusal("transformer-postprocess", wanted)
        release = tuple(map(int, re.findall(r"\d+", self.version)[:2]))
        if len(release) == 2 and release < _EARLIEST_PRE_NORM:
            raise self._fields.refusal("version", "v1.11 or later with norms before blocks")
        return True


def _with_rows(read: Read, count: int, value: float = 0.0, *, is_total: bool = False) -> Read:
    """Adds rows of one value, `count` of them or until there are that many."""

    def run() -> StoredTensor:
        tensor = read()
        missing = count - len(tensor.values) if is_total else count
        rows = np.full((missing, *tensor.shape[1:]), value, tensor.values.dtype)
        scale = tensor.scale
        if scale is not None:
            scale = np.append(scale, np.repeat(scale[-1:], missing))
        return StoredTensor(np.concatenate([tensor.values, rows]), tensor.dtype, scale)

    return run


def _with_columns(read: Read, count: int) -> Read:
    def run() -> StoredTensor:
        tensor = read()
        columns = np.zeros((len(tensor.values), count), tensor.values.dtype)
        return StoredTensor(np.concatenate([tensor.values, columns], axis=1), tensor.dtype, tensor.scale)

    return run
