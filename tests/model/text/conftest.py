"""SentencePiece models of each kind, learned from a few sentences."""

from collections.abc import Callable
from pathlib import Path

import pytest

from model.text.tokenizer import Tokenizer, TokenizerSettings, language_tags
from tests.model import sentencepieces

SENTENCES = (
    "Good morning, how are you?",
    "Where is the station?",
    "The little cat sleeps on the mat.",
    "Bonjour, comment allez-vous ?",
    "Où est la gare ?",
    "Le petit chat dort sur le tapis.",
)
TAGS = language_tags(["en", "fr"])
TrainModel = Callable[..., bytes]


@pytest.fixture(scope="session")
def train_model() -> TrainModel:
    """Returns the bytes of a SentencePiece model, trained once; keywords override its options."""
    models: dict[str, bytes] = {}

    def train(sentences: tuple[str, ...] = SENTENCES, **overrides: object) -> bytes:
        options = {
            "byte_fallback": True,
            "pad_id": 0,
            "unk_id": 1,
            "bos_id": 2,
            "eos_id": 3,
            "control_symbols": list(TAGS.values()),
            "normalization_rule_name": "identity",
        }
        key = repr((sentences, sorted(overrides.items())))
        if key not in models:
            models[key] = sentencepieces.train(sentences * 5, 340, **{**options, **overrides})
        return models[key]

    return train


def _load(folder: Path, content: bytes, **settings: bool) -> Tokenizer:
    (folder / "tokenizer.model").write_bytes(content)
    TokenizerSettings(tags=TAGS, **settings).save(folder)
    return Tokenizer.load(folder)


@pytest.fixture(scope="session")
def tokenizer(train_model: TrainModel, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """Shared, unigram, byte fallback, tags for English and French."""
    return _load(tmp_path_factory.mktemp("unigram"), train_model())


@pytest.fixture(scope="session")
def word_tokenizer(train_model: TrainModel, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """Shared, word level, lower case, punctuation apart."""
    settings = TokenizerSettings(lowercase=True, separate_punctuation=True)
    sentences = tuple(map(settings.prepared, SENTENCES))
    content = train_model(sentences, model_type="word", byte_fallback=False)
    folder = tmp_path_factory.mktemp("word")
    return _load(folder, content, lowercase=True, separate_punctuation=True)


@pytest.fixture(scope="session", params=["unigram", "bpe", "word", "char"])
def any_tokenizer(
    request: pytest.FixtureRequest, train_model: TrainModel, tmp_path_factory: pytest.TempPathFactory
) -> Tokenizer:
    """One of each kind."""
    kind = request.param
    content = train_model(model_type=kind, byte_fallback=kind in ("unigram", "bpe"))
    return _load(tmp_path_factory.mktemp(kind), content)
