import json
from pathlib import Path
from typing import Any

import pytest

from model.errors import ConfigError
from model.presets import preset
from model.training.config.train_config import NetworkConfig, TrainConfig
from model.training.run_folder.state import seed_everything
from tests.model.training.tiny_runs import tiny_run, tiny_values


def test_plain_values_and_back(tmp_path: Path) -> None:
    config = tiny_run(tmp_path)
    plain: dict[str, Any] = json.loads(json.dumps(config.to_dict()))
    assert TrainConfig.from_dict(plain) == config


@pytest.mark.parametrize(
    ("section", "values", "message"),
    [
        ("card", {"name": "English French"}, r"`card\.name` must be .* but is 'English French'"),
        ("decoding", {"max_length": 999}, r"`decoding\.max_length` must be at most 256, .* but is 999"),
        ("decoding", {"max_length": None, "min_length": 300}, r"`decoding\.min_length` must be at most"),
        ("run", {"seed": 2**63}, r"`run\.seed` must be less than 9223372036854775808, but is 92233"),
        ("vocabulary", {"shared": False}, r"`network\.tie` must be .* but is 'all'"),
        ("network", {"num_encoder_layers": 0}, r"`network\.num_encoder_layers` must be .* but is 0"),
    ],
)
def test_what_no_run_could_be_made_of_is_refused_before_training(
    tmp_path: Path, section: str, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        tiny_run(tmp_path, **{section: values})


@pytest.mark.parametrize("code", ["EN", "zh_CN", "english", ""])
def test_a_language_that_no_card_could_name_is_refused(tmp_path: Path, code: str) -> None:
    values = tiny_values(tmp_path)
    values["corpora"][0]["source_language"] = code
    with pytest.raises(ConfigError, match=r"`corpora\[0\]\.source_language` must be a language code"):
        TrainConfig.from_dict(values)


@pytest.mark.parametrize(
    ("trained", "validated", "message"),
    [
        (
            {"bidirectional": False},
            {},
            r"`validation_corpora\[0\]\.bidirectional` must be false where only en-fr is trained, ",
        ),
        (
            {"bidirectional": False},
            {"source_language": "fr", "target_language": "en"},
            r"`validation_corpora\[0\]\.target_language` must be that of .* \(en-fr\), but is 'en'",
        ),
        (
            {},
            {"target_language": "de", "bidirectional": False},
            r"`validation_corpora\[0\]\.target_language` must be that of .* \(en-fr, fr-en\), but is 'de'",
        ),
    ],
)
def test_validation_of_a_direction_that_is_not_trained_is_refused(
    tmp_path: Path, trained: dict[str, Any], validated: dict[str, Any], message: str
) -> None:
    values = tiny_values(tmp_path)
    values["corpora"][0].update(trained)
    values["validation_corpora"][0].update(validated)
    with pytest.raises(ConfigError, match=message):
        TrainConfig.from_dict(values)


def test_one_of_two_trained_directions_may_be_validated(tmp_path: Path) -> None:
    values = tiny_values(tmp_path)
    turned = {"source_language": "fr", "target_language": "en", "bidirectional": False}
    values["validation_corpora"][0].update(turned)
    assert TrainConfig.from_dict(values).validation_corpora[0].directions == (("fr", "en"),)


def test_the_largest_seed_and_number_of_threads_are_taken(tmp_path: Path) -> None:
    config = tiny_run(tmp_path, run={"seed": 2**63 - 1, "threads": 1024}, augmentation={"seed": 2**63 - 1})
    seed_everything(config.run.seed)


def test_network_takes_the_vocabulary_from_the_tokenizer() -> None:
    network = NetworkConfig(preset="small", overrides={"ffn_dim": 512})
    made = network.transformer(source_vocab_size=70, target_vocab_size=70, pad_id=3, eos_id=1)
    assert made == preset(
        "small", ffn_dim=512, source_vocab_size=70, target_vocab_size=70, pad_id=3, eos_id=1
    )
