"""Marian's Transformer as ours: what `special:model.yml` says, and where each parameter is. No torch.

Marian's decoder begins with a vector of zeros. Here that is the embedding of `<s>`, which is appended to the
vocabulary together with `<pad>`; neither is ever produced.
"""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from model.checkpoint.importing.formats.marian_binary_files import CONFIGURATION, MarianFile
from model.checkpoint.importing.parameters import Parameter, Table, in_layers, read_parameters
from model.checkpoint.importing.reader import Fields, network_config
from model.checkpoint.importing.tensors import Part
from model.checkpoint.importing.vocabulary import NEVER
from model.checkpoint.weights_writer import Read
from model.config import Tie, TransformerConfig

_MAX_LENGTH = 512
_EPSILON = 1e-9
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


_OUTPUT = "decoder_ff_logit_out"
_LAYERS = "{stack}_l{number}_{name}"
_TABLE: Table = {
    "embedding.norm": "{stack}_emb_ln_{kind}_pre",
    "norm": "{stack}_top_ln_{kind}",
    **in_layers(
        _LAYERS,
        {
            "attention.query": "self_{kind}q",
            "attention.key_value": ("self_{kind}k", "self_{kind}v"),
            "attention.output": "self_{kind}o",
            "attention_residual.norm": "self_Wo_ln_{kind}{pre}",
            "cross.query": "context_{kind}q",
            "cross.key_value": ("context_{kind}k", "context_{kind}v"),
            "cross.output": "context_{kind}o",
            "cross_residual.norm": "context_Wo_ln_{kind}{pre}",
            "feed_forward.input": "ffn_{kind}1",
            "feed_forward.output": "ffn_{kind}2",
            "feed_forward_residual.norm": "ffn_ffn_ln_{kind}{pre}",
        },
    ),
}
_RECURRENT: Table = in_layers(
    _LAYERS,
    {
        "ssru.forget": "rnn_{kind}f",
        "ssru.input": "rnn_{kind}",
        "attention_residual.norm": "{cell}_ln_{kind}{pre}",
    },
)
"""The names that differ where cells take the place of the decoder's self-attention."""
_UNUSED = re.compile(r"special:.*|.*_QuantMult[AB]|Wpos")


class MarianNetwork:
    """The Transformer of an opened weight file.

    Attributes:
        source_size: Rows of the source embedding.
        target_size: Rows of the target embedding.
        has_shared_vocabulary: Whether both sides have one embedding.
    """

    def __init__(self, file: MarianFile) -> None:
        """Checks that the network can be computed."""
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
        """
        rows = self._rows
        has_table = "Wpos" in self._file
        values: dict[str, object] = {
            "source_vocab_size": rows + 2,
            "target_vocab_size": rows + 2,
            "model_dim": self._fields.integer("dim-emb"),
            "num_heads": self._fields.integer("transformer-heads"),
            "num_encoder_layers": self._fields.integer("enc-depth"),
            "num_decoder_layers": self._fields.integer("dec-depth"),
            "ffn_dim": max(self._ffn_dims),
            "activation": self._fields.choice("transformer-ffn-activation", _ACTIVATIONS),
            "norm_position": "pre" if self._is_pre_norm else "post",
            "final_norm": "n" in self._fields.text("transformer-postprocess-top"),
            "norm_epsilon": _EPSILON,
            "decoder_memory": "ssru" if self._is_recurrent else "attention",
            "output_bias": self._has_output_bias,
            "positions": "learned" if has_table else "sinusoidal",
            "sinusoid_layout": "halves",
            "sinusoid_endpoint": not has_table,
            "max_positions": self._file.lengths("Wpos")[0] if has_table else _MAX_LENGTH,
            "embedding_norm": "n" in self._fields.text("transformer-postprocess-emb"),
            "scale_embeddings": not has_table,
            "tie": self._tie,
            "pad_id": rows + 1,
            "bos_id": rows,
            "eos_id": eos_id,
            "unk_id": unk_id,
            "decoder_start_id": rows,
        }
        return network_config(f"{self._file.path}: {CONFIGURATION}", values)

    def tensors(self, config: TransformerConfig) -> Mapping[str, Read]:
        """Returns how to read each parameter, tied ones once."""
        numbers = self._decoder_layers(config.num_decoder_layers)
        parts_of = partial(self._parts, config, numbers)
        return read_parameters(self._file, config, parts_of, unused=_UNUSED)

    def _parts(self, config: TransformerConfig, numbers: Sequence[int], parameter: Parameter) -> list[Part]:
        module = parameter.module
        if module == "embedding.positions":
            return [Part("Wpos", is_transposed=self._file.has_outputs_first("Wpos"))]
        if module in ("embedding.tokens", "output"):
            return [self._row_of_each_piece(parameter)]
        is_recurrent = self._is_recurrent and parameter.stack == "decoder"
        weight, bias = ("scale", "bias") if module.endswith("norm") else ("W", "b")
        words = {"kind": bias if parameter.kind == "bias" else weight}
        words["pre"], words["cell"] = ("_pre", "rnn") if self._is_pre_norm else ("", "rnn_ffn")
        if parameter.stack == "decoder":
            words["number"] = str(numbers[parameter.layer])
        names = parameter.names({**_TABLE, **_RECURRENT} if is_recurrent else _TABLE, **words)
        return [self._block(name, config, module) for name in names]

    def _block(self, name: str, config: TransformerConfig, module: str) -> Part:
        """Returns weights, bias or norm of a block; weights are stored in either order."""
        lengths, width, rows, columns = self._file.lengths(name), config.ffn_dim, None, None
        # Zeros make up for a stack whose feed-forward blocks are narrower than the other's.
        if module == "feed_forward.input" and lengths[-1] < width:
            rows = _rows(lengths[-1], width)
        if module == "feed_forward.output" and len(lengths) == 2 and lengths[0] < width:
            columns = width
        is_transposed = len(lengths) == 2 and not self._file.has_outputs_first(name)
        return Part(name, rows, is_transposed=is_transposed, columns=columns)

    def _row_of_each_piece(self, parameter: Parameter) -> Part:
        """Returns embedding or output with rows for `<s>`, `<pad>` and pieces that this side alone lacks."""
        count, name, is_bias = self._rows + 2, _OUTPUT, parameter.kind == "bias"
        if parameter.module == "embedding.tokens":
            name = self._source if parameter.stack == "encoder" else self._target
        elif is_bias:
            name += "_b"
        elif self._tie in ("all", "decoder"):
            name = self._target
        else:
            name += "_W" if f"{name}_W" in self._file else "_Wt"
        is_legacy = name.endswith("_W")  # [dimensions, words], where all others are [words, dimensions]
        known = self._file.lengths(name)[-1 if is_legacy else 0] if name in self._file else self.target_size
        return Part(
            name,
            _rows(known, count),
            NEVER if is_bias else 0,
            is_transposed=not is_bias and self._file.has_outputs_first(name) != is_legacy,
            is_optional=is_bias,
        )

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


def _rows(known: int, count: int) -> NDArray[np.intp]:
    """Returns the numbers of the rows that are known, and -1 for each other row up to a count."""
    rows = np.arange(count)
    return np.where(rows < known, rows, -1)
