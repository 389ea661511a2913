import json
from pathlib import Path
from typing import Any

from model.presets import preset
from model.training.train_config import NetworkConfig, TrainConfig
from tests.model.training.tiny_runs import tiny_run


def test_plain_values_and_back(tmp_path: Path) -> None:
    config = tiny_run(tmp_path)
    plain: dict[str, Any] = json.loads(json.dumps(config.to_dict()))
    assert TrainConfig.from_dict(plain) == config


def test_network_takes_the_vocabulary_from_the_tokenizer() -> None:
    network = NetworkConfig(preset="small", overrides={"ffn_dim": 512})
    made = network.transformer(source_vocab_size=70, target_vocab_size=70, pad_id=3, eos_id=1)
    assert made == preset(
        "small", ffn_dim=512, source_vocab_size=70, target_vocab_size=70, pad_id=3, eos_id=1
    )
