"""A tokenizer and a network small enough to be trained inside a test session."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

from model.checkpoint.card import ModelCard
from model.checkpoint.folder import save_checkpoint
from model.config import TransformerConfig, preset
from model.decode_request import DecodeOptions
from model.network.transformer import Transformer
from model.text.tokenizer import Tokenizer, TokenizerSettings, language_tags, write_tokenizer
from tests.model.sentencepieces import pieces_of, train

Pairs = Sequence[tuple[str, str]]
PAIRS = (("en", "fr"), ("fr", "en"))


def train_tokenizer(folder: Path, phrases: Pairs, vocab_size: int = 330) -> None:
    """Write `tokenizer.model` and `tokenizer.json` into an existing folder."""
    settings = TokenizerSettings(tags=language_tags(("en", "fr")))
    model = train(
        [text for phrase in phrases for text in phrase],
        vocab_size,
        byte_fallback=True,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        control_symbols=list(settings.tags.values()),
        normalization_rule_name="identity",
    )
    (folder / "tokenizer.model").write_bytes(model)
    settings.save(folder)


def tiny_config(tokenizer: Tokenizer, **overrides: object) -> TransformerConfig:
    """A pre-norm network of 32 wide, 2 + 1 layers, for this tokenizer."""
    shape = {"model_dim": 32, "num_heads": 2, "num_encoder_layers": 2, "num_decoder_layers": 1, "ffn_dim": 64}
    sizes = {
        "source_vocab_size": tokenizer.source_vocab_size,
        "target_vocab_size": tokenizer.target_vocab_size,
    }
    rates = {"embedding_dropout": 0.0, "residual_dropout": 0.0}
    return preset("small", **{**shape, **sizes, **rates, **overrides})


def tiny_card(**overrides: object) -> ModelCard:
    """A card for English and French in both directions."""
    values = {
        "name": "tiny",
        "version": "1",
        "pairs": PAIRS,
        "max_source_length": 64,
        "max_target_length": 64,
    }
    return ModelCard(**{**values, "decoding": DecodeOptions(beam_size=2), **overrides})  # type: ignore[arg-type]


def train_checkpoint(folder: Path, tokenizer_folder: Path, phrases: Pairs, steps: int = 120) -> None:
    """Teach a network the phrases by heart and write its checkpoint folder."""
    tokenizer = Tokenizer.load(tokenizer_folder)
    network = learn(Transformer(tiny_config(tokenizer)), tokenizer, phrases, steps)
    save_network(
        folder, network, tokenizer_folder, provenance={"data": ["phrases of the tests"], "steps": steps}
    )


def save_network(folder: Path, network: Transformer, tokenizer_folder: Path, **others: object) -> None:
    """Write a checkpoint folder with a tiny card; `others` are arguments of `save_checkpoint`."""
    values = {"card": tiny_card(), "provenance": {}, **others}
    save_checkpoint(
        folder,
        config=network.config,
        weights=network.state_dict(),
        tokenizer_folder=tokenizer_folder,
        **values,  # type: ignore[arg-type]
    )


def write_foreign_checkpoint(folder: Path) -> None:
    """Write a checkpoint with random weights whose tokenizer is as NLLB's."""
    model = train(["the cat sleeps on the mat", "le chat dort", "Where is the station?"] * 3, 80)
    tags = {"en": "eng_Latn", "fr": "fra_Latn", "de": "deu_Latn"}
    settings = TokenizerSettings(
        tags=tags,
        special_ids={"bos": 0, "pad": 1, "eos": 2, "unk": 3},
        source_begin=("{source}",),
        target_begin=("{target}",),
        prepare="none",
    )
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *pieces_of(model)[3:], *tags.values()]
    with TemporaryDirectory() as name:
        tokenizer = Path(name)
        write_tokenizer(
            tokenizer, settings, models={"tokenizer.model": model}, vocabularies={"vocabulary.json": pieces}
        )
        ids = {f"{special}_id": id_ for special, id_ in settings.special_ids.items()}
        config = tiny_config(Tokenizer.load(tokenizer), **ids, decoder_start_id=2)
        with torch.random.fork_rng():
            torch.manual_seed(2)
            network = Transformer(config)
            network.apply(_redraw)
        pairs = tuple((source, target) for source in tags for target in tags if source != target)
        save_network(folder, network, tokenizer, card=tiny_card(pairs=pairs))


def learn(network: Transformer, tokenizer: Tokenizer, phrases: Pairs, steps: int) -> Transformer:
    """Minimise the cross entropy of all phrases, both ways, from a fixed seed."""
    both_ways = [(en, fr, "fr") for en, fr in phrases] + [(fr, en, "en") for en, fr in phrases]
    sources = [torch.tensor(tokenizer.encode(text, target_language=code)) for text, _, code in both_ways]
    targets = [torch.tensor([tokenizer.bos_id, *tokenizer.encode_target(text)]) for _, text, _ in both_ways]
    source_NS = pad_sequence(sources, batch_first=True, padding_value=tokenizer.pad_id)
    target_NT = pad_sequence(targets, batch_first=True, padding_value=tokenizer.pad_id)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        network.apply(_redraw)
        optimiser = torch.optim.Adam(network.parameters(), lr=5e-3)
        for _ in range(steps):
            logits = network(source_NS, target_NT[:, :-1])
            loss = cross_entropy(
                logits.flatten(0, 1), target_NT[:, 1:].flatten(), ignore_index=tokenizer.pad_id
            )
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return network.eval()


def _redraw(module: torch.nn.Module) -> None:
    if isinstance(module, torch.nn.Linear | torch.nn.Embedding):
        module.reset_parameters()
