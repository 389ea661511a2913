"""Marian's Transformer written anew in numpy, random models of it, and writers of its files."""

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import yaml

Tensors = dict[str, np.ndarray]
CONFIGURATION = "special:model.yml"
EOS, UNK = 0, 1

FIREFOX: Mapping[str, object] = {
    "type": "transformer",
    "dec-cell": "ssru",
    "dec-depth": 2,
    "dim-emb": 16,
    "enc-depth": 3,
    "layer-normalization": False,
    "tied-embeddings-all": True,
    "transformer-decoder-autoreg": "rnn",
    "transformer-dim-ffn": 24,
    "transformer-ffn-activation": "relu",
    "transformer-ffn-depth": 2,
    "transformer-heads": 4,
    "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d",
    "transformer-postprocess-top": "",
    "transformer-preprocess": "",
    "version": "v1.9.56 94aeaa46 2021-04-28 00:28:35 +0100",
}


def random_tensors(config: Mapping[str, object], sizes: tuple[int, int], seed: int = 0) -> Tensors:
    """Marian's parameters [inputs, outputs], as its graph would make them from a configuration."""
    random = np.random.default_rng(seed)
    dim, ffn = int(config["dim-emb"]), int(config["transformer-dim-ffn"])
    decoder_ffn = int(config.get("transformer-decoder-dim-ffn", 0)) or ffn
    is_shared = config.get("tied-embeddings-all") or config.get("tied-embeddings-src")
    pre = "_pre" if config["transformer-preprocess"] else ""
    tensors: Tensors = {}

    def draw(name: str, *shape: int, around: float = 0.0, width: float = 0.4) -> None:
        tensors[name] = (around + width * random.standard_normal(shape)).astype(np.float32)

    def norm(name: str, suffix: str = pre) -> None:
        draw(f"{name}_ln_scale{suffix}", 1, dim, around=1.0, width=0.2)
        draw(f"{name}_ln_bias{suffix}", 1, dim)

    def attention(name: str) -> None:
        for letter in "qkvo":
            draw(f"{name}_W{letter}", dim, dim)
            draw(f"{name}_b{letter}", 1, dim)
        norm(f"{name}_Wo")

    def feed_forward(name: str, width: int) -> None:
        for number, shape in (("1", (dim, width)), ("2", (width, dim))):
            draw(f"{name}_W{number}", *shape)
            draw(f"{name}_b{number}", 1, shape[1])
        norm(f"{name}_ffn")

    names = ("Wemb",) if is_shared else ("encoder_Wemb", "decoder_Wemb")
    for name, size in zip(names, sizes, strict=False):
        draw(name, size, dim)
    if config.get("transformer-train-positions"):
        draw("Wpos", 40, dim)
    for layer in range(1, int(config["enc-depth"]) + 1):
        attention(f"encoder_l{layer}_self")
        feed_forward(f"encoder_l{layer}_ffn", ffn)
    for layer in sorted({*decoder_layers(config)}):
        if config["transformer-decoder-autoreg"] == "rnn":
            draw(f"decoder_l{layer}_rnn_W", dim, dim)
            draw(f"decoder_l{layer}_rnn_Wf", dim, dim)
            draw(f"decoder_l{layer}_rnn_bf", 1, dim)
            norm(f"decoder_l{layer}_rnn" if pre else f"decoder_l{layer}_rnn_ffn")
        else:
            attention(f"decoder_l{layer}_self")
        attention(f"decoder_l{layer}_context")
        feed_forward(f"decoder_l{layer}_ffn", decoder_ffn)
    for stack in ("encoder", "decoder"):
        if "n" in str(config["transformer-postprocess-emb"]):
            norm(f"{stack}_emb", "_pre")
        if "n" in str(config["transformer-postprocess-top"]):
            norm(f"{stack}_top", "")
    if not (config.get("tied-embeddings-all") or config.get("tied-embeddings")):
        draw("decoder_ff_logit_out_Wt", sizes[1], dim)
    draw("decoder_ff_logit_out_b", 1, sizes[1], width=1.0)
    tensors["none_QuantMultA"] = np.ones((1, 1), np.float32)
    return tensors


def decoder_layers(config: Mapping[str, object]) -> Sequence[int]:
    return config.get("transformer-tied-layers") or range(1, int(config["dec-depth"]) + 1)


def quantised(tensors: Tensors) -> Tensors:
    """The tensors as int8 files hold them: every matrix of weights in multiples of its own unit."""

    def rounded(values: np.ndarray) -> np.ndarray:
        return np.rint(values * multiplier(values)).clip(-127, 127) / multiplier(values)

    return {name: rounded(values) if is_weight(name) else values for name, values in tensors.items()}


def is_weight(name: str) -> bool:
    return name[-4:] == "Wemb" or name[-3:-1] == "_W" or name[-2:] == "_W"


def multiplier(values: np.ndarray) -> np.float32:
    return np.float32(127 / np.abs(values).max())


class Marian:
    """Greedy search, one sentence at a time; the whole prefix is computed again at every step."""

    def __init__(self, config: Mapping[str, object], tensors: Tensors) -> None:
        self.config = config
        self.tensors = {name: values.astype(np.float32) for name, values in tensors.items()}

    def translate(self, source: Sequence[int], max_length: int = 60) -> tuple[list[int], float]:
        """The ids, with `</s>` if it was reached, and their log-probability."""
        memory = self._encode(source)
        ids: list[int] = []
        total = 0.0
        while len(ids) < max_length and ids[-1:] != [EOS]:
            logits = self._decode(ids, memory)[-1].astype(np.float64)
            log_probs = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
            allowed = log_probs.copy()
            allowed[UNK] = -np.inf
            ids.append(int(allowed.argmax()))
            total += float(log_probs[ids[-1]])
        return ids, total

    def _encode(self, source: Sequence[int]) -> np.ndarray:
        states = self._start("encoder", self._embedding("encoder")[list(source)])
        for layer in range(1, int(self.config["enc-depth"]) + 1):
            states = self._attention(f"encoder_l{layer}_self", states, None)
            states = self._feed_forward(f"encoder_l{layer}_ffn", states)
        return self._top("encoder", states)

    def _decode(self, ids: Sequence[int], memory: np.ndarray) -> np.ndarray:
        table = self._embedding("decoder")
        states = self._start("decoder", np.concatenate([np.zeros_like(table[:1]), table[list(ids)]]))
        for layer in decoder_layers(self.config):
            if self.config["transformer-decoder-autoreg"] == "rnn":
                states = self._cell(f"decoder_l{layer}_rnn", states)
            else:
                states = self._attention(f"decoder_l{layer}_self", states, None, is_causal=True)
            states = self._attention(f"decoder_l{layer}_context", states, memory)
            states = self._feed_forward(f"decoder_l{layer}_ffn", states)
        own = self.tensors.get("decoder_ff_logit_out_Wt", table)
        return self._top("decoder", states) @ own.T + self.tensors["decoder_ff_logit_out_b"]

    def _embedding(self, stack: str) -> np.ndarray:
        return self.tensors["Wemb" if "Wemb" in self.tensors else f"{stack}_Wemb"]

    def _start(self, stack: str, embedded: np.ndarray) -> np.ndarray:
        length, dim = embedded.shape
        if "Wpos" in self.tensors:
            states = embedded + self.tensors["Wpos"][:length]
        else:
            frequencies = np.exp(-np.arange(dim // 2) * (np.log(10000) / (dim // 2 - 1)))
            angles = np.arange(length)[:, None] * frequencies
            states = embedded * np.sqrt(dim) + np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
        is_normed = "n" in str(self.config["transformer-postprocess-emb"])
        return self._norm(f"{stack}_emb", "_pre", states) if is_normed else states

    def _top(self, stack: str, states: np.ndarray) -> np.ndarray:
        is_normed = "n" in str(self.config["transformer-postprocess-top"])
        return self._norm(f"{stack}_top", "", states) if is_normed else states

    def _norm(self, name: str, suffix: str, states: np.ndarray) -> np.ndarray:
        centred = states - states.mean(-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-9)
        gain, shift = (self.tensors[f"{name}_ln_{each}{suffix}"] for each in ("scale", "bias"))
        return centred / deviation * gain + shift

    def _before(self, name: str, states: np.ndarray) -> np.ndarray:
        is_normed = "n" in str(self.config["transformer-preprocess"])
        return self._norm(name, "_pre", states) if is_normed else states

    def _after(self, name: str, states: np.ndarray, block: np.ndarray) -> np.ndarray:
        is_normed = "n" in str(self.config["transformer-postprocess"])
        return self._norm(name, "", states + block) if is_normed else states + block

    def _affine(self, name: str, letter: str, states: np.ndarray) -> np.ndarray:
        return states @ self.tensors[f"{name}_W{letter}"] + self.tensors[f"{name}_b{letter}"]

    def _attention(
        self, name: str, states: np.ndarray, memory: np.ndarray | None, *, is_causal: bool = False
    ) -> np.ndarray:
        normed = self._before(f"{name}_Wo", states)
        heads = int(self.config["transformer-heads"])
        queries, keys, values = (
            np.stack(np.split(self._affine(name, letter, read), heads, axis=1))
            for letter, read in zip("qkv", (normed, *[normed if memory is None else memory] * 2), strict=True)
        )
        scores = queries @ keys.transpose(0, 2, 1) / np.sqrt(keys.shape[-1])
        if is_causal:
            scores += np.triu(np.full(scores.shape[1:], -1e9), 1)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        joined = np.concatenate(weights / weights.sum(-1, keepdims=True) @ values, axis=1)
        return self._after(f"{name}_Wo", states, self._affine(name, "o", joined))

    def _cell(self, name: str, states: np.ndarray) -> np.ndarray:
        normed = self._before(name, states)
        inputs = normed @ self.tensors[f"{name}_W"]
        gates = 1 / (1 + np.exp(-self._affine(name, "f", normed)))
        cell = np.zeros_like(inputs[0])
        outputs = []
        for gate, read in zip(gates, inputs, strict=True):
            cell = gate * cell + (1 - gate) * read
            outputs.append(np.maximum(cell, 0))
        return self._after(f"{name}_ffn", states, np.stack(outputs))

    def _feed_forward(self, name: str, states: np.ndarray) -> np.ndarray:
        inner = self._affine(name, "1", self._before(f"{name}_ffn", states))
        is_relu = self.config["transformer-ffn-activation"] == "relu"
        inner = np.maximum(inner, 0) if is_relu else inner / (1 + np.exp(-inner))
        return self._after(f"{name}_ffn", states, self._affine(name, "2", inner))


def write_npz(path: Path, config: Mapping[str, object], tensors: Tensors) -> None:
    np.savez(path, **tensors, **{CONFIGURATION: np.frombuffer(_yaml(config), np.int8)})


def write_bin(path: Path, config: Mapping[str, object], tensors: Tensors, int8: int | None = None) -> None:
    """Writes a `.bin` file; `int8` is the type's number of quantised weights."""
    items = [(name, *_item(name, values, int8)) for name, values in tensors.items()]
    items.append((CONFIGURATION, 0x101, (len(_yaml(config)),), _yaml(config)))
    content = struct.pack("<2Q", 1, len(items))
    contents = [data + bytes(-len(data) % 256) for _, _, _, data in items]
    for (name, type_, shape, _), data in zip(items, contents, strict=True):
        content += struct.pack("<4Q", len(name) + 1, type_, len(shape), len(data))
    content += b"".join(name.encode() + b"\0" for name, *_ in items)
    content += b"".join(struct.pack(f"<{len(shape)}i", *shape) for _, _, shape, _ in items)
    gap = -(len(content) + 8) % 256
    path.write_bytes(content + struct.pack("<Q", gap) + bytes(gap) + b"".join(contents))


def _item(name: str, values: np.ndarray, int8: int | None) -> tuple[int, tuple[int, ...], bytes]:
    if int8 is None or not is_weight(name):
        return 0x404, values.shape, values.astype("<f4").tobytes()
    unit = multiplier(values)
    numbers = np.rint(values * unit).clip(-127, 127).astype(np.int8)
    numbers = numbers if name.endswith("Wemb") else numbers.T
    return int8, values.shape, numbers.tobytes() + np.float32(unit).tobytes()


def _yaml(config: Mapping[str, object]) -> bytes:
    return yaml.safe_dump(dict(config)).encode() + b"\0"
