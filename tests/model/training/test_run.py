import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from model.checkpoint.folder import load_checkpoint
from model.checkpoint.self_test import self_test_sentences
from model.errors import ConfigError, DivergenceError, TrainingError
from model.training.optimisation.step import Update
from model.training.report.page import write_report
from model.training.run import Run, open_run
from model.training.run_folder.folder import RunLog
from model.training.run_folder.state import load_run_state, save_run_state
from model.training.run_folder.writer import CheckpointRetention
from model.training.train_config import TrainConfig
from model.training.trainer import EndReason, Hook
from model.translation.translator import Translator
from tests.model.training.conftest import AVERAGED
from tests.model.training.tiny_runs import tiny_run, tiny_values
from tests.model.training.waiting import PATIENCE_SECONDS


class Killed(BaseException):
    """Stands for the end of the process."""


def train(
    folder: Path, *, resume: bool = False, hook: Hook | None = None, **sections: dict[str, Any]
) -> tuple[Run, EndReason]:
    run = open_run(tiny_run(folder, **sections), resume=resume, hook=hook)
    return run, run.run()


def state_of(run: Run) -> dict[str, torch.Tensor]:
    return load_file(run.folder.state / "tensors.safetensors")


def kill_at(step: int) -> Hook:
    def hook(current: int, update: Update) -> None:
        if current == step:
            raise Killed

    return hook


def same_state(expected: Run, found: Run) -> bool:
    """Whether both runs saved the same tensors, bit for bit."""
    ours, theirs = state_of(expected), state_of(found)
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def cross_entropies(run: Run) -> list[float]:
    """Of all updates and validations in the log."""
    return [event["cross_entropy"] for event in RunLog(run.folder).events()]


def test_a_run_leaves_what_its_folder_promises(averaged_run: Run) -> None:
    root = averaged_run.folder.root
    assert {path.name for path in root.iterdir()} == {
        *("lock", "config.json", "log.jsonl", "provenance.json"),
        *("checkpoints", "data", "state", "tensorboard", "tokenizer", "translations"),
    }
    kept = {path.name.split("-")[0] for path in (root / "checkpoints").iterdir()}
    assert kept == {"best", "last", "step"}
    assert {path.name for path in (root / "translations").iterdir()} == {"first.json", "best.json"}


def test_a_recurrent_decoder_trains_and_its_checkpoint_translates(tmp_path: Path) -> None:
    network = {"preset": "small", "decoder_memory": "ssru", "model_dim": 16, "num_heads": 2, "ffn_dim": 16}
    run, reason = train(tmp_path, network=network)
    assert reason == "max_steps"
    assert cross_entropies(run)[-1] < cross_entropies(run)[0]
    last = load_checkpoint(run.folder.checkpoints / "last")
    assert "decoder.layers.0.ssru.forget.bias" in last.weights
    assert Translator.load(last.folder).translate(["a b"], source="en", target="fr")


def test_its_log_has_updates_and_validations(averaged_run: Run) -> None:
    updates, validations = (
        RunLog(averaged_run.folder).events("update"),
        RunLog(averaged_run.folder).events("validation"),
    )
    assert [event["step"] for event in updates] == [2, 3, 4, 6, 8]
    assert [event["step"] for event in validations] == [4, 8]
    assert {"en-fr", "fr-en"} == set(validations[-1]["directions"])
    assert updates[-1]["mfu"] > 0
    assert updates[-1]["learning_rate"] == pytest.approx(1e-3 * (4 / 8) ** 0.5)


def test_its_checkpoint_is_complete_and_translates(averaged_run: Run) -> None:
    folder = averaged_run.folder.checkpoints / "last"
    checkpoint = load_checkpoint(folder)
    assert checkpoint.card.pairs == (("en", "fr"), ("fr", "en"))
    assert checkpoint.card.licence == "cc0-1.0"
    assert checkpoint.provenance["steps"] == 8
    assert checkpoint.provenance["golden"] == []  # the network is sure of nothing
    scores = checkpoint.provenance["scores"]
    assert isinstance(scores, dict)
    assert "tok:13a" in scores["directions"]["en-fr"]["bleu_signature"]
    (translation,) = Translator.load(folder).translate(["dog cat."], source="en", target="fr")
    assert isinstance(translation.text, str)


def test_its_checkpoints_record_golden_sentences_of_their_own_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model.checkpoint.self_test.is_sure", lambda _: True)
    precision = {"checkpoint_precision": "float32", "max_steps": 4}
    run, _ = train(tmp_path, optimisation=AVERAGED["optimisation"], run=precision)
    for name in ("best", "last"):
        folder = run.folder.checkpoints / name
        translator = Translator.load(folder, device="cpu", precision="float32")
        golden = self_test_sentences(load_checkpoint(folder).provenance)
        assert {(each.source_language, each.target_language) for each in golden} == {
            ("en", "fr"),
            ("fr", "en"),
        }
        results = translator.decode([each.request(translator.tokenizer) for each in golden])
        texts = [translator.tokenizer.decode(result[0].token_ids) for result in results]
        assert texts == [each.translation for each in golden]


def test_checkpoints_are_stored_in_the_type_asked_for(tmp_path: Path) -> None:
    run, _ = train(tmp_path, run={"checkpoint_precision": "int8", "max_steps": 1})
    checkpoint = load_checkpoint(run.folder.checkpoints / "last")
    assert set(checkpoint.weights.dtypes.values()) == {"int8", "float32"}
    assert all(torch.isfinite(tensor).all() for tensor in checkpoint.state_dict().values())


def test_its_checkpoint_holds_the_averaged_weights(averaged_run: Run) -> None:
    weights = load_checkpoint(averaged_run.folder.checkpoints / "last").state_dict()
    state = state_of(averaged_run)
    name = "encoder.layers.0.feed_forward.input.weight"
    mean = (state[f"snapshot.0.{name}"] + state[f"snapshot.1.{name}"]) / 2
    torch.testing.assert_close(weights[name], mean)
    assert not torch.equal(weights[name], state[f"weights.{name}"])


@pytest.mark.parametrize("step", [3, 5, 7])
def test_a_killed_run_resumes_to_the_same_bits(averaged_run: Run, tmp_path: Path, step: int) -> None:
    """Killed before, at and after saved states and validations."""
    with pytest.raises(Killed):
        train(tmp_path, hook=kill_at(step), **AVERAGED)
    torch.rand(7)  # moves the generators
    resumed, reason = train(tmp_path, resume=True, **AVERAGED)
    assert reason == "max_steps"
    assert same_state(averaged_run, resumed)
    assert cross_entropies(averaged_run) == cross_entropies(resumed)
    for name in ("first.json", "best.json"):
        texts = [(run.folder.translations / name).read_text() for run in (averaged_run, resumed)]
        assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("sections", "copies"),
    [
        ({"optimisation": {"accumulate": 2}, "batches": {"max_tokens": 400}}, {}),
        (
            {
                "vocabulary": {"kind": "bpe", "size": 60},
                "augmentation": {"no_final_stop": 1.0},
                "batches": {"piece_dropout": 0.3, "target_piece_dropout": 0.1},
            },
            {"no_final_stop": 120},
        ),
    ],
    ids=["accumulation", "augmentation and piece dropout"],
)
def test_other_settings_resume_to_the_same_bits(
    tmp_path: Path, sections: dict[str, Any], copies: dict[str, int]
) -> None:
    run = {"max_steps": 6}
    expected, _ = train(tmp_path, run=run | {"folder": str(tmp_path / "whole")}, **sections)
    assert json.loads(expected.folder.provenance.read_text())["data"]["copies_added"] == copies
    with pytest.raises(Killed):
        train(tmp_path, hook=kill_at(5), run=run, **sections)
    assert same_state(expected, train(tmp_path, resume=True, run=run, **sections)[0])


def test_a_longer_limit_continues_a_finished_run(copied_run: Path) -> None:
    resumed, _ = train(copied_run, resume=True, run={"max_steps": 10})
    assert resumed.trainer.position.step == 10
    assert resumed.trainer.position.validated_step == 10


def test_resuming_what_never_began_begins_and_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """So that a supervisor can always start a run with --resume."""
    _, reason = train(tmp_path, resume=True, run={"max_steps": 1})
    assert reason == "max_steps"
    assert f"{tmp_path / 'run'} holds no state to resume from: the run begins" in caplog.text
    caplog.clear()
    train(tmp_path, resume=True, run={"max_steps": 1})
    assert "holds no state" not in caplog.text


def with_position(text: str) -> str:
    """A saved state with a value that no release writes."""
    values = json.loads(text)
    values["position"]["pace"] = 1
    return json.dumps(values)


@pytest.mark.parametrize(
    ("resume", "changes", "damage", "message"),
    [
        (False, {}, {}, "holds a run already: give --resume"),
        (True, {"batches": {"max_tokens": 500}}, {}, r"batches\.max_tokens"),
        (
            True,
            {},
            {"state/state.json": with_position},
            r"the run's state \S+/state is of another layout: .*'pace'",
        ),
        (True, {}, {"config.json": lambda _: "{"}, r"cannot resume: \S+/config\.json, .* cannot be read"),
    ],
    ids=["not asked to", "another configuration", "another layout", "a damaged configuration"],
)
def test_a_run_that_cannot_go_on_is_refused_with_the_reason(
    copied_run: Path,
    resume: bool,
    changes: dict[str, dict[str, int]],
    damage: dict[str, Callable[[str], str]],
    message: str,
) -> None:
    for name, damaged in damage.items():
        file = copied_run / "run" / name
        file.write_text(damaged(file.read_text()))
    with pytest.raises((ConfigError, TrainingError), match=message):
        open_run(tiny_run(copied_run, **changes), resume=resume)


def test_the_validation_loss_is_of_every_pair_once_that_the_network_can_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    values = tiny_values(tmp_path, network={"positions": "learned", "max_positions": 64})
    values["cleaning"] = {"max_length_tokens": 64}
    values["card"] = {"max_source_length": 64, "max_target_length": 64}
    values["validation_corpora"][0]["weight"] = 3.0
    with (tmp_path / "valid.tsv").open("a") as file:
        file.write("a" * 99 + "\t" + "b" * 99 + "\n")
    run = open_run(TrainConfig.from_dict(values))
    assert "left out of the validation loss: 2 too long" in caplog.text
    pairs, validator = run.data.held_out_pairs, run.validator
    assert pairs is not None
    assert validator is not None
    assert sum(batch.source_NS.shape[0] for batch in validator._loss_batches) == len(pairs) == 10


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(("peak", "is_slow"), [(2e9, True), (20e9, False)])
def test_a_precision_that_the_processor_multiplies_slowly_is_warned_of(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    peak: float,
    is_slow: bool,
) -> None:
    peaks = {"float32": 24e9, "bfloat16": peak}
    monkeypatch.setattr("model.training.run.measured_peak", lambda _, precision: peaks[precision])
    config = tiny_run(tmp_path, run={"precision": "bfloat16", "max_steps": 1})
    assert open_run(config).run() == "max_steps"
    warning = "run.precision bfloat16: matrix products take 12 times as long as in float32 on this processor"
    assert (warning in caplog.text) == is_slow


@pytest.mark.usefixtures("undrawn")
def test_an_interrupted_run_writes_no_report_and_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sections: dict[str, Any] = {"validation": {"heat_maps": 1}, "run": {"plots": True}}
    run = open_run(
        tiny_run(tmp_path, **sections), hook=lambda step, _: run.trainer.interrupt() if step == 2 else None
    )
    with caplog.at_level(logging.INFO, "model"):
        assert run.run() == "interrupted"
    assert run.trainer.position.step == 2
    assert not run.folder.report.exists()
    assert f"`dragoman report {run.folder.root}` writes one" in caplog.text
    page = write_report(run.folder).read_text()
    assert "ended by interrupted" in page
    assert not (run.folder.report / "attention").exists()
    resumed, reason = train(tmp_path, resume=True, run={"max_steps": 3})
    assert (reason, resumed.trainer.position.step) == ("max_steps", 3)


@pytest.mark.parametrize("step", [4, 8])
def test_a_run_killed_during_a_validation_repeats_only_the_validation(
    averaged_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Killed after the validation was logged, and before its checkpoints are written."""

    def put(retention: CheckpointRetention, current: int, *arguments: Any, **named: Any) -> None:
        if current == step:
            raise Killed
        original(retention, current, *arguments, **named)

    original = CheckpointRetention.put
    monkeypatch.setattr(CheckpointRetention, "put", put)
    with pytest.raises(Killed):
        train(tmp_path, **AVERAGED)
    monkeypatch.undo()
    resumed = open_run(tiny_run(tmp_path, **AVERAGED), resume=True)
    assert resumed.trainer.position.step == step
    resumed.run()
    assert same_state(averaged_run, resumed)
    assert [event["step"] for event in RunLog(resumed.folder).events("validation")] == [4, 8]


@pytest.mark.parametrize(
    ("poisoned", "message", "kept_step"),
    [
        (4, r"at step 4: the weight source_embedding\S+ is not finite; last good checkpoint: none yet", 3),
        (5, r"at step 6: the loss is nan; last good checkpoint: \S+/best; try a lower learning rate", 4),
    ],
)
@pytest.mark.usefixtures("undrawn")
def test_divergence_names_the_step_and_keeps_what_was_good(
    tmp_path: Path, poisoned: int, message: str, kept_step: int
) -> None:
    def poison(step: int, update: Update) -> None:
        if step == poisoned:
            with torch.no_grad():
                next(iter(run.network.parameters())).fill_(float("nan"))

    run = open_run(tiny_run(tmp_path, run={"plots": True}), hook=poison)
    with pytest.raises(DivergenceError, match=message):
        run.run()
    assert "ended by divergence" in (run.folder.report / "index.html").read_text()
    assert load_run_state(run.folder.state)[0] == kept_step
    assert all(tensor.isfinite().all() for tensor in state_of(run).values())


@pytest.mark.parametrize(
    ("sections", "reason", "steps", "epochs"),
    [
        (
            {"batches": {"max_tokens": 3000}, "run": {"max_epochs": 2, "max_steps": 0}},
            "max_epochs",
            None,
            2.0,
        ),
        ({"run": {"max_minutes": 1e-6, "max_steps": 0}}, "max_minutes", 1, None),
        (
            {
                "optimisation": {"learning_rate": 1e-30},  # so that no score rises
                "validation": {"every": 1, "patience": 2},
                "run": {"max_steps": 30},
            },
            "early_stopping",
            1 + 2,
            None,
        ),
    ],
)
def test_the_first_limit_ends_a_run_which_validates_once_more(
    tmp_path: Path, sections: dict[str, Any], reason: str, steps: int | None, epochs: float | None
) -> None:
    run, ended_by = train(tmp_path, **{"validation": {"every": 1000}, **sections})
    position = run.trainer.position
    assert ended_by == reason
    assert steps in (None, position.step)
    assert epochs in (None, position.epoch)
    assert position.validated_step == position.step


@pytest.mark.usefixtures("undrawn")
def test_without_held_out_text_the_last_weights_are_kept(tmp_path: Path) -> None:
    values = tiny_values(tmp_path, run={"plots": True, "max_steps": 1}) | {"validation_corpora": []}
    run = open_run(TrainConfig.from_dict(values))
    run.run()
    assert [path.name for path in run.folder.checkpoints.iterdir()] == ["last"]
    assert RunLog(run.folder).events("validation") == []
    assert "Nothing has been validated." in (run.folder.report / "index.html").read_text()


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainingError, match=r"cannot write to .*file/run"):
        open_run(tiny_run(tmp_path, run={"folder": str(tmp_path / "file/run")}))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"run\.device"):
        open_run(tiny_run(tmp_path, run={"device": "cuda"}))


def test_the_log_says_what_happens(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "model"):
        train(tmp_path, run={"max_steps": 2})
    expected = (
        "making the tokenizer",
        "tokenising the train text",
        "training on 120 directed pairs",
        "step 2, epoch",
        "en→fr BLEU",
    )
    assert all(each in caplog.text for each in expected)
    told = re.search(r"an epoch has (\d+) updates; the run will take less than a minute", caplog.text)
    assert told
    assert 1 < int(told[1]) < 120


def test_updates_continue_while_a_state_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may_write, states = Event(), []

    def slow_save(folder: Path, step: int, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
        assert may_write.wait(PATIENCE_SECONDS)
        states.append((step, values["position"]["step"], tensors[f"weights.{name}"]))
        save_run_state(folder, step, tensors, values)

    monkeypatch.setattr("model.training.run_folder.writer.save_run_state", slow_save)
    config = tiny_run(tmp_path, run={"max_steps": 2})
    opened = open_run(config, hook=lambda step, _: may_write.set() if step == 2 else None)
    name, weight = next(opened.network.named_parameters())
    first_weight = weight.detach().clone()
    opened.run()
    assert states[0][:2] == (0, 0)
    assert torch.equal(states[0][2], first_weight)
    assert load_run_state(opened.folder.state)[0] == 2


def test_a_state_that_cannot_be_written_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_save(_folder: Path, step: int, *_: object) -> None:
        raise TrainingError(f"cannot save the state of step {step}")

    monkeypatch.setattr("model.training.run_folder.writer.save_run_state", no_save)
    with pytest.raises(TrainingError, match="of step 0"):
        train(tmp_path)
