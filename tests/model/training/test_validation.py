from collections.abc import Sequence

import pytest
import torch

from model.decode_request import DecodeOptions, DecodeRequest, Hypothesis
from model.decoding.runner import Result
from model.errors import DecodingError, NativeError
from model.evaluation import HeldOut
from model.network.transformer import Transformer
from model.text.tokenizer import Tokenizer
from model.training.config_sections import VocabularyConfig
from model.training.data.vocabulary import train_tokenizer
from model.training.validation import (
    EarlyStopping,
    NewDecoder,
    TranslatedText,
    ValidationDecoder,
    Validator,
    new_decoder,
)
from tests.model.tiny_networks import tiny_config
from tests.model.training.parallel_text import made_up_pairs

TEXTS = made_up_pairs(5)
ENGLISH = HeldOut("en", "fr", tuple(e for e, _ in TEXTS), tuple(f for _, f in TEXTS))
FRENCH = HeldOut("fr", "en", ENGLISH.references, ENGLISH.sources)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    config = VocabularyConfig(kind="char", size=64, byte_fallback=False)
    folder = tmp_path_factory.mktemp("tokenizer")
    return train_tokenizer(made_up_pairs(30), config, target_languages=["en", "fr"], folder=folder)


def network(tokenizer: Tokenizer) -> Transformer:
    torch.manual_seed(0)
    size = tokenizer.source_vocab_size
    ids = {name: getattr(tokenizer, name) for name in ("pad_id", "bos_id", "eos_id", "unk_id")}
    return Transformer(tiny_config(source_vocab_size=size, target_vocab_size=size, max_positions=200, **ids))


def validator(
    tokenizer: Tokenizer, made: Transformer, decoder: NewDecoder, held_out: Sequence[HeldOut]
) -> Validator:
    return Validator(
        made,
        decoder,
        tokenizer,
        held_out=held_out,
        loss_batches=[],
        options=DecodeOptions(strategy="greedy", max_length=6),
        precision="float32",
    )


class Oracle:
    """A decoder that knows the translation of some sources and refuses all others."""

    name = "oracle"

    def __init__(self, tokenizer: Tokenizer, answers: dict[str, str]) -> None:
        self._tokenizer = tokenizer
        self._known = {
            tuple(tokenizer.encode(source, target_language=language)): text
            for source, text in answers.items()
            for language in ("en", "fr")
        }
        self.is_closed = False

    def decode(self, requests: Sequence[DecodeRequest]) -> list[Result]:
        return [self._answer(self._known.get(request.source_ids)) for request in requests]

    def close(self) -> None:
        self.is_closed = True

    def _answer(self, text: str | None) -> Result:
        if text is None:
            return DecodingError("no")
        ids = tuple(self._tokenizer.encode_target(text)[:-1])
        return [Hypothesis(ids, 0.0, 0.0, (), finished=True)]


def test_the_oracle_scores_a_hundred_in_its_direction(tokenizer: Tokenizer) -> None:
    made = network(tokenizer)
    oracle = Oracle(tokenizer, dict(TEXTS) | {french: "nothing at all" for _, french in TEXTS})
    checked = validator(tokenizer, made, lambda _: oracle, [ENGLISH, FRENCH])
    result = checked.validate(dict(made.named_parameters()))
    into_french, into_english = result.directions
    assert into_french.scores.bleu == pytest.approx(100)
    assert into_english.scores.bleu < 5
    assert result.score("bleu") == pytest.approx((into_french.scores.bleu + into_english.scores.bleu) / 2)
    assert result.texts[0] == TranslatedText(**vars(ENGLISH), translations=ENGLISH.references)
    assert "en→fr BLEU 100.00" in result.summary()
    assert result.decoder == "oracle"
    assert oracle.is_closed


def test_the_real_decoder_runs_on_the_weights_it_is_given(tokenizer: Tokenizer) -> None:
    made = network(tokenizer)
    checked = validator(tokenizer, made, new_decoder, [ENGLISH])
    weights = {name: weight.detach().clone() for name, weight in made.named_parameters()}
    first = checked.validate(weights)
    silenced = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    assert checked.validate(silenced).texts != first.texts
    assert checked.validate(weights).texts == first.texts


def test_what_the_decoder_refuses_counts_as_empty(tokenizer: Tokenizer) -> None:
    made = network(tokenizer)
    oracle = Oracle(tokenizer, dict(TEXTS[1:]))
    checked = validator(tokenizer, made, lambda _: oracle, [ENGLISH])
    (found,) = checked.validate(dict(made.named_parameters())).directions
    assert found.untranslated == 1
    assert found.text.translations[0] == ""
    assert 0 < found.scores.bleu < 100


# ChineseNMT: the loss on held-out text rises from epoch to epoch while BLEU still rises.
SCORES = [25.4, 25.5, 25.7, 25.9, 26.0, 26.1, 26.0, 26.1, 25.9, 26.05, 26.0]


def test_a_rising_loss_never_stops_while_bleu_rises_and_patience_counts_from_the_best() -> None:
    stopping = EarlyStopping(patience=5)
    for number, score in enumerate(SCORES, start=1):
        assert not stopping.exhausted
        assert stopping.record(score) == (number <= 6)  # an equal score, at 8, is no better one
    assert stopping.exhausted
    assert stopping.best == 26.1


def test_a_better_score_starts_the_count_again() -> None:
    stopping = EarlyStopping(patience=2)
    for score in (10, 9, 11, 10):
        stopping.record(score)
        assert not stopping.exhausted
    stopping.record(10.5)
    assert stopping.exhausted


REQUESTS = [
    DecodeRequest(tuple(range(4, 4 + length)), DecodeOptions(strategy="beam", beam_size=2, max_length=8))
    for length in (3, 1, 5, 2)
]


def tiny_network() -> Transformer:
    torch.manual_seed(0)
    return Transformer(tiny_config()).eval()


def tokens(decoder: ValidationDecoder) -> list[tuple[int, ...]]:
    results = decoder.decode(REQUESTS)
    decoder.close()
    return [result[0].token_ids for result in results if isinstance(result, list)]


def without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise NativeError("not here")

    monkeypatch.setattr("model.training.validation.native_factory", refuse)


def test_natively_the_same_translations_as_in_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    made = tiny_network()
    native = new_decoder(made)
    assert native.name == "native float32"
    found = tokens(native)
    without_the_library(monkeypatch)
    torch_decoder = new_decoder(made)
    assert torch_decoder.name == "torch float32"
    assert tokens(torch_decoder) == found
    assert len(found) == len(REQUESTS)


def test_reserved_tokens_are_never_produced() -> None:
    made = tiny_network()
    used = {token for sentence in tokens(new_decoder(made)) for token in sentence}
    forbidden = used - {made.config.eos_id}
    assert forbidden
    again = {token for sentence in tokens(new_decoder(made, never_produced=forbidden)) for token in sentence}
    assert not again & forbidden
