from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from model.engines import torch_engine
from model.errors import DecodingError, TranslationError
from model.request import DecodeOptions, DecodeRequest, Hypothesis
from model.text.tokenizer import Tokenizer
from model.training.data.config import VocabularyConfig
from model.training.data.vocabulary import train_tokenizer
from model.training.reporting.scores import TranslationScores
from model.training.validation import (
    Decode,
    DirectionResult,
    HeldOut,
    ValidationResult,
    Validator,
    encode_source,
    held_out_texts,
)
from model.transformer import Transformer
from tests.model.tiny_networks import tiny_config
from tests.model.training.parallel_text import made_up_pairs, write_corpus

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
    tokenizer: Tokenizer, made: Transformer, decode: Decode, held_out: Sequence[HeldOut]
) -> Validator:
    return Validator(
        made,
        decode,
        tokenizer,
        held_out=held_out,
        loss_batches=[],
        options=DecodeOptions(strategy="greedy", max_length=6),
        precision="float32",
        samples=2,
    )


def oracle(tokenizer: Tokenizer, answers: dict[str, str]) -> Decode:
    """A decoder that knows the translation of every source."""
    known = {
        tuple(encode_source(tokenizer, source, language)): text
        for source, text in answers.items()
        for language in ("en", "fr")
    }

    def decode(requests: Sequence[DecodeRequest]) -> list[list[Hypothesis] | TranslationError]:
        ids = [tuple(tokenizer.encode_target(known[request.source_ids])[:-1]) for request in requests]
        return [[Hypothesis(found, 0.0, 0.0, (), finished=True)] for found in ids]

    return decode


def test_the_oracle_scores_a_hundred_in_its_direction(tokenizer: Tokenizer) -> None:
    made = network(tokenizer)
    answers = dict(TEXTS) | {french: "nothing at all" for _, french in TEXTS}
    checked = validator(tokenizer, made, oracle(tokenizer, answers), [ENGLISH, FRENCH])
    result = checked.validate(dict(made.named_parameters()))
    into_french, into_english = result.directions
    assert into_french.scores.bleu == pytest.approx(100)
    assert into_english.scores.bleu < 5
    assert result.score("bleu") == pytest.approx((into_french.scores.bleu + into_english.scores.bleu) / 2)
    assert [sample.translation for sample in into_french.samples] == list(ENGLISH.references[:2])
    assert "en→fr BLEU 100.00" in result.summary()


def test_the_real_decoder_runs_on_the_weights_it_is_given(tokenizer: Tokenizer) -> None:
    made = network(tokenizer)
    checked = validator(tokenizer, made, torch_engine(made.eval()).decode, [ENGLISH])
    weights = {name: weight.detach().clone() for name, weight in made.named_parameters()}
    first = checked.validate(weights)
    silenced = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    second = checked.validate(silenced)
    assert first.directions[0].samples != second.directions[0].samples
    assert checked.validate(weights).directions[0].samples == first.directions[0].samples


def test_what_the_decoder_refuses_counts_as_empty(tokenizer: Tokenizer) -> None:
    def decode(requests: Sequence[DecodeRequest]) -> list[list[Hypothesis] | TranslationError]:
        return [DecodingError("no"), *oracle(tokenizer, dict(TEXTS))(requests[1:])]

    made = network(tokenizer)
    (found,) = (
        validator(tokenizer, made, decode, [ENGLISH]).validate(dict(made.named_parameters())).directions
    )
    assert found.untranslated == 1
    assert found.samples[0].translation == ""
    assert 0 < found.scores.bleu < 100


def test_plain_values_carry_scores_signatures_and_samples() -> None:
    scores = TranslationScores(30.0, "signature of BLEU", 50.0, "signature of chrF")
    result = ValidationResult(2.5, (DirectionResult("en", "fr", scores, 0, ()),), 1.25)
    assert result.to_dict() == {
        "cross_entropy": 2.5,
        "bleu": 30.0,
        "chrf": 50.0,
        "seconds": 1.2,
        "directions": {
            "en-fr": {
                "bleu": 30.0,
                "bleu_signature": "signature of BLEU",
                "chrf": 50.0,
                "chrf_signature": "signature of chrF",
                "untranslated": 0,
                "samples": [],
            }
        },
    }


def test_held_out_text_is_grouped_by_direction_and_bounded(tmp_path: Path) -> None:
    both = write_corpus(tmp_path / "a.tsv", 5, bidirectional=True)
    one = write_corpus(tmp_path / "b.tsv", 5, seed=1)
    forward, backward = held_out_texts([both, one], max_sentences=2)
    assert (forward.source_language, forward.target_language) == ("en", "fr")
    assert (backward.source_language, backward.target_language) == ("fr", "en")
    assert len(forward.sources) == 4
    assert backward.sources == forward.references[:2]
    assert len(held_out_texts([one], max_sentences=0)[0].sources) == 5
