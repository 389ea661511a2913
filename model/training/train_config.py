"""Every value of a training run in one tree: from TOML files, options and plain values, and back to them."""

import copy
import dataclasses
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Self, TypeVar, cast

from pydantic import ValidationError

from model.checkpoint.card import ModelCard
from model.config import FORMER_FIELDS, TransformerConfig, preset
from model.decode_request import DecodeOptions
from model.errors import ConfigError
from model.text.languages import is_language_code
from model.training.config_sections import (
    AugmentationConfig,
    BatchConfig,
    CardConfig,
    CleaningConfig,
    CorpusConfig,
    ObjectiveConfig,
    OptimisationConfig,
    RunConfig,
    ScheduleConfig,
    ValidationConfig,
    VocabularyConfig,
)
from model.training.optimisation.schedule import Schedule
from model.validators import require, require_given, require_known

Values = dict[str, Any]
T = TypeVar("T")

FROM_THE_TOKENIZER = (
    "source_vocab_size",
    "target_vocab_size",
    "pad_id",
    "bos_id",
    "eos_id",
    "unk_id",
    "decoder_start_id",
)
"""Fields of TransformerConfig that the tokenizer sets."""

LISTS = ("corpora", "validation_corpora")
_PATHS = ("path", "target_path", "reuse", "folder", "start_from")
_DECODING = {field.name for field in dataclasses.fields(DecodeOptions)}


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """The network: a preset, and fields of TransformerConfig that override it.

    Attributes:
        preset: A name in `model.config.PRESETS`.
        overrides: Fields of TransformerConfig by name.
    """

    preset: str = "small"
    overrides: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        fields = [f.name for f in dataclasses.fields(TransformerConfig)] + list(FORMER_FIELDS)
        allowed = [name for name in fields if name not in FROM_THE_TOKENIZER]
        require_known(self.overrides, ["preset", *allowed])
        self.transformer(source_vocab_size=64, target_vocab_size=64)

    @property
    def longest(self) -> int | None:
        """Most tokens of a side, if positions are learned; None if there is no limit."""
        shape = self.transformer(source_vocab_size=64, target_vocab_size=64)
        return shape.max_positions if shape.positions == "learned" else None

    def transformer(self, **from_the_tokenizer: int) -> TransformerConfig:
        """The network's configuration, once the vocabulary is known.

        Raises:
            ConfigError: If the preset is unknown or a value cannot work.
        """
        return preset(self.preset, **{**self.overrides, **from_the_tokenizer})


def require_one_vocabulary(shape: TransformerConfig, *, is_shared: bool) -> None:
    """Refuse one embedding table for two vocabularies, because their ids mean different pieces."""
    fits = is_shared or shape.tie in ("none", "decoder")
    require(fits, "network.tie", "none or decoder where the vocabularies are not shared", shape.tie)


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """A training run; each field is a section of the TOML file.

    Raises:
        ConfigError: If sections do not fit each other, by the full name of a value.

    Attributes:
        corpora: What to train on.
        validation_corpora: What validations translate, in directions that are trained; weights are ignored.
        cleaning: Which pairs are dropped.
        augmentation: Which altered copies of pairs are added.
        vocabulary: How text becomes token ids.
        batches: How pairs are grouped into batches.
        network: The network.
        objective: What is minimised.
        optimisation: How the weights are updated.
        schedule: The learning rate of each step.
        validation: How the network is validated, and which checkpoints are kept.
        run: Folder, length and device.
        card: The model card of the checkpoints.
        decoding: How validations translate, and the default of the checkpoints.
    """

    corpora: tuple[CorpusConfig, ...]
    validation_corpora: tuple[CorpusConfig, ...] = ()
    cleaning: CleaningConfig = field(default_factory=CleaningConfig)
    augmentation: AugmentationConfig = field(default_factory=AugmentationConfig)
    vocabulary: VocabularyConfig = field(default_factory=VocabularyConfig)
    batches: BatchConfig = field(default_factory=BatchConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    optimisation: OptimisationConfig = field(default_factory=OptimisationConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    validation: ValidationConfig = field(default_factory=ValidationConfig)
    run: RunConfig
    card: CardConfig = field(default_factory=CardConfig)
    decoding: DecodeOptions = field(default_factory=DecodeOptions)

    def __post_init__(self) -> None:
        """Check values of different sections against each other, before a corpus is read."""
        shape = self.network.transformer(source_vocab_size=64, target_vocab_size=64)
        limits = {
            f"card.{name}": getattr(self.card, name) for name in ("max_source_length", "max_target_length")
        }
        if self.network.longest:
            limits["cleaning.max_length_tokens"] = self.cleaning.max_length_tokens
        for name, limit in limits.items():
            most = f"at most network.max_positions, which is {shape.max_positions}"
            require(limit <= shape.max_positions, name, most, limit)
        for name in ("num_encoder_layers", "num_decoder_layers"):
            layers = getattr(shape, name)
            require(layers > 0, f"network.{name}", "at least 1: translation takes both halves", layers)
        require_one_vocabulary(shape, is_shared=self.vocabulary.shared or self.vocabulary.reuse is not None)
        Schedule(self.schedule, self.optimisation.learning_rate, shape.model_dim, self.run)
        for name in LISTS:
            for i, corpus in enumerate(getattr(self, name)):
                self._require_codes(f"{name}[{i}]", corpus)
        if self.corpora:
            self._require_trained_directions()
            self._require_a_card()

    @staticmethod
    def _require_codes(name: str, corpus: CorpusConfig) -> None:
        for side in ("source_language", "target_language"):
            code = getattr(corpus, side)
            require(is_language_code(code), f"{name}.{side}", "a language code such as en or pt-BR", code)

    def _require_trained_directions(self) -> None:
        """Refuse to validate an untrained direction, because its scores would choose the best weights."""
        trained = ", ".join("-".join(pair) for pair in self.pairs)
        for i, corpus in enumerate(self.validation_corpora):
            name, (forward, *backward) = f"validation_corpora[{i}]", corpus.directions
            one_of = f"that of a direction which is trained ({trained})"
            require(forward in self.pairs, f"{name}.target_language", one_of, corpus.target_language)
            fits = all(pair in self.pairs for pair in backward)
            require(fits, f"{name}.bidirectional", f"false where only {trained} is trained", True)

    def _require_a_card(self) -> None:
        try:
            self.model_card()
        except ConfigError as error:
            section = "decoding" if error.field in _DECODING else "card"
            raise error.renamed(f"{section}.{error.field}") from error

    def model_card(self) -> ModelCard:
        """The model card of the checkpoints."""
        return ModelCard(**vars(self.card), pairs=self.pairs, decoding=self.decoding)

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The trained directions as (source, target) codes, each once."""
        return tuple(dict.fromkeys(pair for corpus in self.corpora for pair in corpus.directions))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON, in the shape of the TOML file."""
        values = cast(dict[str, Any], _plain(dataclasses.asdict(self)))
        values["network"] = {"preset": self.network.preset, **values["network"]["overrides"]}
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The configuration in a dictionary of the shape of the TOML file.

        Raises:
            ConfigError: If a key is unknown or missing, or a value is refused; names it by its full name.
        """
        makers: dict[str, Any] = {f.name: f.default_factory for f in dataclasses.fields(cls)}
        require_known(values, makers)
        requirement = "given, at least one"
        require_given("corpora" in values, "corpora", requirement)
        require(bool(values["corpora"]), "corpora", requirement, values["corpora"])
        lists = {name: _corpora(name, values.get(name, [])) for name in LISTS}
        makers |= {"run": RunConfig, "network": _network, "decoding": _decoding}
        single = {
            name: build(makers[name], values.get(name, {}), name) for name in makers if name not in LISTS
        }
        return cls(**lists, **single)  # type: ignore[arg-type]


def build(make: Callable[..., T], values: object, section: str) -> T:
    """An instance of a configuration class from a table of plain values, by their names.

    Raises:
        ConfigError: If a key is unknown or missing, or a value is refused; its field is `section.key`.
    """
    require(isinstance(values, Mapping), section, "a table", values)
    table: dict[str, Any] = dict(values)  # type: ignore[call-overload]
    try:
        if dataclasses.is_dataclass(make):
            require_known(table, [field.name for field in dataclasses.fields(make)])
        return make(**table)
    except ConfigError as error:
        raise error.renamed(f"{section}.{error.field}") from error
    except ValidationError as error:
        first = error.errors()[0]
        name, value = str(first["loc"][0]), first["input"]
        requirement = first["msg"].removeprefix("Input should be ")
        if first["type"] == "missing":
            raise ConfigError(f"{section}.{name}", "given", None, is_missing=True) from error
        raise ConfigError(f"{section}.{name}", requirement, value) from error


def _corpora(name: str, entries: object) -> tuple[CorpusConfig, ...]:
    require(isinstance(entries, Sequence) and not isinstance(entries, str), name, "a list of tables", entries)
    return tuple(build(CorpusConfig, e, f"{name}[{i}]") for i, e in enumerate(cast(list[object], entries)))


def _network(*, preset: str = "small", **overrides: object) -> NetworkConfig:
    return NetworkConfig(preset=preset, overrides=overrides)


def _decoding(**values: object) -> DecodeOptions:
    return DecodeOptions.from_dict(values)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def load_train_config(files: Sequence[Path], options: Mapping[str, Any]) -> TrainConfig:
    """Merge the files in their order, then the options.

    Later values replace earlier ones one by one, lists of corpora completely. Paths in a file are relative to
    that file, paths in options to the working directory.

    Args:
        files: TOML files, complete only together.
        options: In the shape of a file: sections of values, and lists of corpora.

    Raises:
        ConfigError: If a file cannot be read, or as TrainConfig.from_dict.
    """
    values: Values = {}
    for file in files:
        added = _read_toml(file)
        for table, name in paths(added):
            table[name] = str(_tidy(file.parent / table[name]))
        values = merged(values, added)
    return TrainConfig.from_dict(merged(values, options))


def merged(values: Mapping[str, Any], changes: Mapping[str, Any]) -> Values:
    """A copy of `values` with `changes` merged into its tables."""
    result = copy.deepcopy(dict(values))
    for name, change in changes.items():
        earlier = result.get(name)
        if isinstance(earlier, Mapping) and isinstance(change, Mapping):
            result[name] = merged(earlier, change)
        else:
            result[name] = copy.deepcopy(change)
    return result


def paths(values: Values) -> Iterator[tuple[Values, str]]:
    """The table and the name of each path in a configuration; empty paths are left out, and refused later."""
    lists = [values[name] for name in LISTS if isinstance(values.get(name), list)]
    for table in (*chain(*lists), values.get("vocabulary"), values.get("run")):
        for name in _PATHS if isinstance(table, dict) else ():
            if isinstance(table.get(name), str) and table[name]:
                yield table, name


def _read_toml(file: Path) -> Values:
    try:
        with file.open("rb") as opened:
            return tomllib.load(opened)
    except (OSError, ValueError) as error:  # TOML and UTF-8 errors are ValueErrors
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError("config", f"a readable TOML file ({reason})", str(file)) from error


def _tidy(path: Path) -> Path:
    """The path without `..`, unless a symbolic link makes that another file."""
    tidy = Path(os.path.normpath(path))
    return tidy if tidy.resolve() == path.resolve() else path
