import json
import os
from pathlib import Path
from typing import Any

import pytest

from model.errors import ConfigError
from model.training.run_folder.state import seed_everything
from model.training.train_config import TrainConfig, load_train_config, merged
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
    ("both_ways", "validated", "message"),
    [
        (False, {}, "bidirectional` must be false where only en-fr is trained, "),
        (
            False,
            {"source_language": "fr", "target_language": "en"},
            r"target_language` must be that of .* \(en-fr\), but is 'en'",
        ),
        (
            True,
            {"target_language": "de", "bidirectional": False},
            r"target_language` must be that of .* \(en-fr, fr-en\), but is 'de'",
        ),
    ],
)
def test_validation_of_a_direction_that_is_not_trained_is_refused(
    tmp_path: Path, both_ways: bool, validated: dict[str, Any], message: str
) -> None:
    values = tiny_values(tmp_path)
    values["corpora"][0]["bidirectional"] = both_ways
    values["validation_corpora"][0].update(validated)
    with pytest.raises(ConfigError, match=rf"`validation_corpora\[0\]\.{message}"):
        TrainConfig.from_dict(values)


def test_one_of_two_trained_directions_may_be_validated(tmp_path: Path) -> None:
    values = tiny_values(tmp_path)
    turned = {"source_language": "fr", "target_language": "en", "bidirectional": False}
    values["validation_corpora"][0].update(turned)
    assert TrainConfig.from_dict(values).validation_corpora[0].directions == (("fr", "en"),)


def test_the_largest_seed_and_number_of_threads_are_taken(tmp_path: Path) -> None:
    config = tiny_run(tmp_path, run={"seed": 2**63 - 1, "threads": 1024}, augmentation={"seed": 2**63 - 1})
    seed_everything(config.run.seed)


EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.toml"))

TOML = """
[[corpora]]
path = "text/train.tsv"
source_language = "en"
target_language = "fr"

[vocabulary]
size = 500
reuse = "tokenizer"

[network]
preset = "base"
model_dim = 128

[run]
folder = "../runs/one"
max_steps = 10
"""


def write(folder: Path, text: str = TOML) -> Path:
    file = folder / "train.toml"
    file.write_text(text)
    return file


def test_paths_in_the_file_are_relative_to_the_file(tmp_path: Path) -> None:
    config = load_train_config([write(tmp_path)], {})
    assert config.corpora[0].path == str(tmp_path / "text/train.tsv")
    assert config.vocabulary.reuse == str(tmp_path / "tokenizer")
    assert config.run.folder == str(tmp_path.parent / "runs" / "one")


def test_options_win_over_the_file_value_by_value(tmp_path: Path) -> None:
    options = {"vocabulary": {"size": 900}, "run": {"folder": "elsewhere"}, "network": {"num_heads": 4}}
    config = load_train_config([write(tmp_path)], options)
    assert config.vocabulary.size == 900
    assert config.run.folder == "elsewhere"
    assert config.run.max_steps == 10
    assert config.network.overrides == {"model_dim": 128, "num_heads": 4}


def test_a_link_on_the_way_is_followed(tmp_path: Path) -> None:
    (tmp_path / "far" / "away").mkdir(parents=True)
    write(tmp_path / "far" / "away")
    (tmp_path / "near").symlink_to(tmp_path / "far" / "away")
    folder = Path(load_train_config([tmp_path / "near" / "train.toml"], {}).run.folder)
    assert folder.resolve() == tmp_path / "far" / "runs" / "one"


def test_a_later_file_wins_value_by_value_with_its_own_paths(tmp_path: Path) -> None:
    (tmp_path / "near").mkdir()
    over = tmp_path / "near" / "over.toml"
    over.write_text('[network]\nffn_dim = 64\n[run]\nfolder = "two"\n')
    config = load_train_config([write(tmp_path), over], {"run": {"max_steps": 20}})
    assert config.network.overrides == {"model_dim": 128, "ffn_dim": 64}
    assert config.run.folder == str(tmp_path / "near" / "two")
    assert config.run.max_steps == 20
    assert config.vocabulary.reuse == str(tmp_path / "tokenizer")


def test_neither_side_of_a_merge_is_changed_later() -> None:
    values, changes = {"a": {"b": [1]}, "c": 1}, {"a": {"d": [2]}, "c": {"e": 3}}
    both = merged(values, changes)
    assert both == {"a": {"b": [1], "d": [2]}, "c": {"e": 3}}
    both["a"]["b"].append(5)
    both["a"]["d"].append(5)
    assert (values, changes) == ({"a": {"b": [1]}, "c": 1}, {"a": {"d": [2]}, "c": {"e": 3}})


def test_a_list_of_corpora_from_options_replaces_the_files(tmp_path: Path) -> None:
    other = [{"path": "b.tsv", "source_language": "de", "target_language": "en", "bidirectional": True}]
    config = load_train_config([write(tmp_path)], {"corpora": other})
    assert [corpus.path for corpus in config.corpora] == ["b.tsv"]
    assert config.pairs == (("de", "en"), ("en", "de"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TOML + "[netwrk]\n", r"`netwrk` must be one of network \(the nearest name\), corpora, "),
        (TOML.replace("model_dim", "model_dims"), r"`network\.model_dims` must be one of model_dim \(the"),
        (TOML.replace("model_dim = 128", "pad_id = 7"), r"`network\.pad_id` must be one of preset, "),
        (TOML.replace("128", "30"), r"`network\.num_heads` must be a divisor of model_dim \(30\)"),
        (TOML.replace('"base"', '"huge"'), r"`network\.preset` must be one of base, "),
        (TOML.replace("max_steps = 10", ""), r"`run\.max_steps` must be above 0"),
        ("[run]\nmax_steps = 1\n", "`corpora` must be given, at least one, but is missing"),
        ("corpora = 3\n[run]\nmax_steps = 1\n", "`corpora` must be a list of tables"),
        (TOML.replace('path = "text/train.tsv"', ""), r"`corpora\[0\]\.path` must be given"),
        (TOML.replace("text/train.tsv", ""), r"`corpora\[0\]\.path` must be the name of a file, but is ''"),
        (TOML.replace('"tokenizer"', '""'), r"`vocabulary\.reuse` must be the folder of a tokenizer"),
        (TOML.replace("../runs/one", ""), r"`run\.folder` must be a path, but is ''"),
        ("run = ", "`config` must be a readable TOML file"),
        (
            TOML.replace("model_dim = 128", "max_positions = 99") + "[card]\nmax_target_length = 9",
            r"`card\.max_source_length` must be at most network\.max_positions, which is 99, but is 256",
        ),
        (
            TOML.replace("model_dim = 128", 'positions = "learned"') + "[cleaning]\nmax_length_tokens = 600",
            r"`cleaning\.max_length_tokens` must be at most network\.max_positions, which is 512, but is 600",
        ),
        (
            TOML + '[schedule]\nform = "cosine"',
            r"`run\.max_steps` must be above schedule\.warmup_steps for a cosine, which is 1000, but is 10",
        ),
        (
            TOML + '[decoding]\nsuppress_ids = ["a"]',
            r"`decoding\.suppress_ids` must be a list of token ids, but is \('a',\) instead",
        ),
    ],
)
def test_what_cannot_work_is_refused_by_its_full_name(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_train_config([write(tmp_path, text)], {})


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_every_example_loads_wherever_it_is_started_from(file: Path) -> None:
    config = load_train_config([file], {})
    assert os.path.commonpath([config.run.folder, file.parents[1]]) == str(file.parents[1])
