"""State dicts of torch.nn.Transformer translate as with PyTorch, and broken folders are refused by name."""

import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from model.checkpoint.folder import load_checkpoint
from model.checkpoint.importing.formats import recognise
from model.checkpoint.importing.importer import import_model
from model.decode_request import DecodeOptions
from model.errors import CheckpointError
from model.translation.translator import Translator
from tests.model.checkpoint.importing.refusals import refused
from tests.model.checkpoint.importing.test_ctranslate2 import MODELS
from tests.model.tiny_networks import randomised

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")

SPECIALS = ["<unk>", "<pad>", "<bos>", "<eos>"]
SOURCE, TARGET = [*SPECIALS, *"abcdefghij "], [*SPECIALS, *"klmnopqrstu"]
TEXTS = ["a", "cab", "abcdefghij", "ddd"]
PAD, BOS, EOS = 1, 2, 3
LIMIT = 10


class Model(nn.Module):
    """The network of PyTorch's translation tutorial, written anew."""

    def __init__(
        self, *, width: int = 12, shared: bool = False, positions: str = "sinusoids", **options: object
    ) -> None:
        super().__init__()
        self.width = width
        heads, inner = {"nhead": 3, **options}, {"dim_feedforward": 20, "dropout": 0.0}
        layers = {"num_encoder_layers": 3, "num_decoder_layers": 2, "batch_first": True}
        self.transformer = nn.Transformer(width, **layers, **inner, **heads)
        self.src_tok_emb = nn.Embedding(len(TARGET if shared else SOURCE), width)
        self.tgt_tok_emb = self.src_tok_emb if shared else nn.Embedding(len(TARGET), width)
        self.generator = nn.Linear(width, len(TARGET))
        table = torch.arange(40)[:, None] * torch.exp(-torch.arange(0, width, 2) * math.log(10000) / width)
        sinusoids = torch.stack([table.sin(), table.cos()], -1).flatten(1)[:, None]
        if positions == "learned":
            self.pos_emb = nn.Embedding(40, width)
        else:
            self.register_buffer("pos_table", sinusoids, persistent=positions == "sinusoids")

    def embed(self, embedding: nn.Embedding, ids: Tensor) -> Tensor:
        table = self.pos_emb.weight if hasattr(self, "pos_emb") else self.pos_table[:, 0]
        return embedding(ids) * math.sqrt(self.width) + table[: ids.shape[1]]

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        states = self.transformer(
            self.embed(self.src_tok_emb, source), self.embed(self.tgt_tok_emb, target), tgt_mask=mask
        )
        return self.generator(states)


@torch.inference_mode()
def greedy(model: Model, text: str, pieces: list[str]) -> tuple[str, float]:
    """The translation of a text, and its log-probability."""
    total = 0.0
    source, target = [BOS, *(pieces.index(each) for each in text), EOS], [BOS]
    for _ in range(LIMIT):
        log_probs = model(torch.tensor([source]), torch.tensor([target]))[0, -1].log_softmax(-1)
        allowed = log_probs.clone()
        allowed[[PAD, BOS]] = -math.inf
        token = int(allowed.argmax())
        total += float(log_probs[token])
        if token == EOS:
            break
        target.append(token)
    return "".join(TARGET[token] for token in target[1:] if token >= len(SPECIALS)), total


VARIANTS: Mapping[str, tuple[dict[str, object], dict[str, object]]] = {
    "as in the tutorial": ({}, {"num_heads": 3}),
    "pre-norm": ({"norm_first": True}, {"num_heads": 3, "norm_first": True}),
    "GELU": ({"activation": "gelu"}, {"num_heads": 3, "activation": "gelu"}),
    "no biases": ({"bias": False}, {"num_heads": 3}),
    "epsilon": ({"layer_norm_eps": 0.01}, {"num_heads": 3, "layer_norm_eps": 0.01}),
    "odd width": ({"width": 14, "nhead": 7}, {"num_heads": 7}),
    "learned positions": ({"positions": "learned"}, {"num_heads": 3}),
    "no table of positions": ({"positions": "none"}, {"num_heads": 3}),
    "one vocabulary": ({"shared": True}, {"num_heads": 3}),
}  # fmt: skip


def folder_of(model: Model, folder: Path, described: Mapping[str, object], *, shared: bool = False) -> Path:
    folder.mkdir()
    tensors = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    save_file(tensors, folder / "model.safetensors")
    files = {"vocabulary.json": TARGET} if shared else {"source.vocabulary.json": SOURCE}
    files |= {} if shared else {"target.vocabulary.json": {piece: id_ for id_, piece in enumerate(TARGET)}}
    for name, content in {**files, "transformer.json": {"pairs": [["en", "fr"]], **described}}.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder


@pytest.mark.parametrize(("options", "described"), VARIANTS.values(), ids=VARIANTS)
def test_a_state_dict_translates_as_with_pytorch(
    options: dict[str, object], described: dict[str, object], tmp_path: Path
) -> None:
    shared = options.get("shared", False) is True
    model = randomised(Model(**options))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3 if parameter.dim() == 2 else 1)
    folder = folder_of(model, tmp_path / "my model", described, shared=shared)
    for path in (folder, folder / "model.safetensors"):
        found = recognise(path)
        assert found is not None
        assert found.name == "torch"
    import_model(folder, tmp_path / "out")
    assert load_checkpoint(tmp_path / "out").card.pairs == (("en", "fr"),)
    translator = Translator.load(tmp_path / "out", device="cpu", precision="float32", retries=False)
    texts = [text.translate(str.maketrans("abcdefghij", "klmnopqrst")) for text in TEXTS] if shared else TEXTS
    options_ = DecodeOptions(strategy="greedy", max_length=LIMIT)
    results = translator.translate(texts, source="en", target="fr", options=options_)
    expected = [greedy(model, text, TARGET if shared else SOURCE) for text in texts]
    assert [result.text for result in results] == [text for text, _ in expected]
    scores = [result.sentences[0].best.log_probability for result in results]
    assert scores == pytest.approx([score for _, score in expected], abs=1e-4)


def test_tensors_with_other_names_are_described(tmp_path: Path) -> None:
    model = randomised(Model())
    names = {"src_tok_emb": "first", "tgt_tok_emb": "second", "generator": "third"}
    state = {}
    for name, tensor in model.state_dict().items():
        head, _, rest = name.partition(".")
        state[f"{names[head]}.{rest}" if head in names else name] = tensor
    folder = folder_of(model, tmp_path / "in", {"num_heads": 3})
    save_file(state, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"transformer\.json: `names` must tell `source_embedding`"):
        import_model(folder, tmp_path / "out")
    told = {"source_embedding": "first", "target_embedding": "second", "output": "third"}
    (folder / "transformer.json").write_text(json.dumps({"num_heads": 3, "names": told}))
    import_model(folder, tmp_path / "out", pair=("en", "fr"))


Damage = Callable[[Path], object]


def file(name: str, content: bytes | None) -> Damage:
    """Replaces a file, or removes it."""
    return lambda folder: (
        (folder / name).unlink() if content is None else (folder / name).write_bytes(content)
    )


def told(**values: object) -> Damage:
    return file("transformer.json", json.dumps({"num_heads": 3, **values}).encode())


def state(change: Callable[[dict[str, Tensor]], object]) -> Damage:
    """Changes the state dict."""

    def damage(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors")

    return damage


LAYER = "transformer.encoder.layers.1."
FIRST = "transformer.encoder.layers.0.self_attn.in_proj_weight"
SHORT = {LAYER + "linear2.weight": torch.ones(12, 19)}
BROKEN: Mapping[str, tuple[Damage, str]] = {
    "no state dict": (file("model.safetensors", None), "must hold one state dict, but has none"),
    "two": (file("b.pth", b"x"), "but has b.pth, model.safetensors"),
    "truncated": (lambda folder: os.truncate(folder / "model.safetensors", 9000), "is not a readable"),
    "text": (file("model.safetensors", b"text"), "is not a readable"),
    "no vocabulary": (file("target.vocabulary.json", None), "and target.vocabulary.json"),
    "short vocabulary": (file("source.vocabulary.json", b"[]"), "`vocabulary` must be of 15 pieces"),
    "wrong vocabulary": (file("source.vocabulary.json", b"7"), "`vocabulary` must be a list"),
    "unknown setting": (told(heads=3), "`heads` must be one of"),
    "wrong setting": (told(num_heads="3"), "`num_heads` must be an integer"),
    "other heads": (told(num_heads=5), "`num_heads` must be a divisor"),
    "other activation": (told(activation="tanh"), "`activation` must be one of relu, gelu"),
    "wrong pairs": (told(pairs=["en"]), "`pairs` must be pairs"),
    "unknown token": (told(tokens={"eos": "END"}), "`tokens.eos` must be a piece"),
    "no encoder": (state(lambda each: each.pop(FIRST)), f"'{FIRST}' is missing"),
    "a tensor less": (state(lambda each: each.pop(LAYER + "norm1.bias")), "norm1.bias' is missing"),
    "a tensor more": (state(lambda each: each.update(scale=torch.ones(3))), "'scale' is not part"),
    "another shape": (state(lambda each: each.update(SHORT)), f"'{LAYER}linear2.weight' must have shape"),
    "infinite": (state(lambda each: each[LAYER + "norm1.bias"].fill_(math.inf)), "holds NaN or infinity"),
}


@pytest.mark.parametrize(("damage", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_folder_is_refused_by_name(damage: Damage, message: str, tmp_path: Path) -> None:
    folder = folder_of(randomised(Model()), tmp_path / "in", {"num_heads": 3})
    damage(folder)
    refused(folder, message, format_name="torch", pair=("en", "fr"))


@pytest.mark.skipif(MODELS not in os.environ, reason=f"{MODELS} names the folder of real models")
def test_secryst_gives_back_what_it_has_learnt(tmp_path: Path) -> None:
    folder = Path(os.environ[MODELS]) / "secryst-khm-latn"
    import_model(folder, tmp_path / "out", pair=("km", "en"))
    translator = Translator.load(tmp_path / "out", device="cpu", precision="float32", retries=False)
    texts, expected = (
        (folder / f"train_{side}.csv").read_text(encoding="utf-8").split() for side in ("input", "target")
    )
    results = translator.translate(texts, source="km", target="en")
    assert sum(result.text == text for result, text in zip(results, expected, strict=True)) == 46
