"""ⓐ–ⓕ A whole run, from corpora to checkpoint folders, from new weights or those of a checkpoint."""

import dataclasses
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from model.checkpoint.folder import load_checkpoint
from model.config import ONLY_FOR_TRAINING, TransformerConfig
from model.errors import ConfigError, DivergenceError, TrainingError
from model.network.transformer import Transformer
from model.text.tokenizer import Tokenizer
from model.training.config_sections import Precision
from model.training.data.augmentation.piece_dropout import PieceDropouts
from model.training.data.batches import BatchStream
from model.training.data.preparation import PreparedData, one_pass, prepare_data, with_held_out_text
from model.training.distributed.world import SINGLE_PROCESS, World, choose_device, require_batches_for_all
from model.training.optimisation.measurements import expected_minutes, measured_peak
from model.training.optimisation.step import Updater
from model.training.run_folder.folder import FolderLock, RunFolder, lock_folder
from model.training.run_folder.state import is_resumable, seed_everything
from model.training.run_folder.writer import RunDescription, RunWriter, describe_data
from model.training.train_config import (
    FROM_THE_TOKENIZER,
    TrainConfig,
    require_one_vocabulary,
)
from model.training.trainer import EndReason, Hook, Trainer
from model.training.validation import Validator, new_decoder

logger = logging.getLogger(__name__)
_MAY_DIFFER = {*FROM_THE_TOKENIZER, *ONLY_FOR_TRAINING, "vocab_multiple"}
_SOURCE_ROWS = ("source_embedding.tokens.weight",)
_TARGET_ROWS = ("target_embedding.tokens.weight", "output.weight", "output.bias")


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run that is ready to train; `open_run` makes it. Its folder is locked until `run` returns.

    Attributes:
        config: The run's configuration.
        folder: Folder that it writes.
        data: Data that it reads.
        network: The network in training.
        batches: Batches that the network is trained on.
        validator: None if there is no held-out text.
        trainer: The loop.
        writer: Writes into the folder; None in all processes except the first.
        lock: None in all processes except the first.
    """

    config: TrainConfig
    folder: RunFolder
    data: PreparedData
    network: Transformer
    batches: BatchStream
    validator: Validator | None
    trainer: Trainer
    writer: RunWriter | None
    lock: FolderLock | None

    def run(self) -> EndReason:
        """Train to the end, then write `provenance.json` and a report.

        An interrupted run writes no report, because the process may be killed at any moment.

        Raises:
            TrainingError: As Trainer.run, or if the folder cannot be written to.
        """
        try:
            return self._train()
        except OSError as error:
            reason = error.strerror or str(error)
            kept = "what was saved before is kept, continue it with --resume"
            raise TrainingError(f"cannot write to {self.folder.root}: {reason}; {kept}") from error
        finally:
            self._close()

    def _train(self) -> EndReason:
        try:
            reason = self.trainer.run()
        except DivergenceError:
            self._finish("divergence")
            raise
        self._finish(reason)
        return reason

    def _finish(self, ended_by: str) -> None:
        if self.writer is not None:
            self.writer.finish(self.trainer.position, ended_by)

    def _close(self) -> None:
        self.batches.close()
        if self.writer is not None:
            self.writer.close()
        if self.lock is not None:
            self.lock.release()


def open_run(
    config: TrainConfig, *, resume: bool = False, hook: Hook | None = None, world: World = SINGLE_PROCESS
) -> Run:
    """Lock the run's folder, prepare the data, build everything, and restore the saved state.

    Args:
        config: The run's configuration.
        resume: Continue from the saved state; if there is none, log that and begin.
        hook: Called after every update.
        world: The processes that train together. The first alone writes into the folder, which all of them
            must see.

    Raises:
        ConfigError: If the configuration cannot work here, or differs from the one the run began with.
        TrainingError: If the folder holds a run already and `resume` is false, or files that no run wrote.
        CorpusError: If the data cannot be used.
    """
    config = with_held_out_text(config)
    folder = RunFolder(Path(config.run.folder))
    world.require_same("configuration", json.dumps(config.to_dict()))
    require_batches_for_all(config, world)
    device = choose_device(config.run, world)
    with _locked(folder, world) as lock:
        resuming = bool(world.all_max(is_resumable(folder, config, resume) if world.is_first else False))
        if not resuming:
            _require_start(config)
        seed_everything(config.run.seed)
        data = prepare_data(config, folder, keep_tokenizer=resuming, world=world)
        world.require_same("data", json.dumps(data.fingerprints))
        network = _first_network(config, data.tokenizer, resuming=resuming).to(device)
        world.broadcast(list(network.parameters()))
        run = _assembled(config, folder, data, network, lock, hook=hook, world=world, resuming=resuming)
        if resuming:
            run.trainer.resume()
            world.require_same("saved state", str(run.trainer.position))
            logger.info("resuming at step %d", run.trainer.position.step)
        if run.writer is not None:
            run.writer.write_config()
    return run


def prepare_run(config: TrainConfig, *, world: World = SINGLE_PROCESS) -> PreparedData:
    """Write the tokenizer and the token ids of a run into its folder; `open_run` then begins at once.

    Raises:
        As open_run.
    """
    config = with_held_out_text(config)
    folder = RunFolder(Path(config.run.folder))
    with _locked(folder, world) as lock:
        if world.is_first:
            is_resumable(folder, config, resume=False)
        _require_start(config)
        data = prepare_data(config, folder, world=world)
        if lock is not None:
            lock.release()
    return data


@contextmanager
def _locked(folder: RunFolder, world: World) -> Iterator[FolderLock | None]:
    """Lock the folder; after an error it is unlocked, and removed if it is new and holds nothing."""
    if not world.is_first:
        yield None
        return
    is_new = not folder.root.exists()
    lock = lock_folder(folder)
    try:
        yield lock
    except BaseException:
        lock.release()
        if is_new:
            folder.remove_unused()
        raise


def _first_network(config: TrainConfig, tokenizer: Tokenizer, *, resuming: bool) -> Transformer:
    """The network with its first weights, random or from a checkpoint."""
    network = Transformer(network_config(config, tokenizer))
    origin = config.run.start_from
    if origin is not None and not resuming:
        known = start_from(Path(origin), network, tokenizer)
        size = tokenizer.target_vocab_size
        logger.info("starting from %s, which knows %d of the %d pieces", origin, known, size)
    return network


def network_config(config: TrainConfig, tokenizer: Tokenizer) -> TransformerConfig:
    """The network's configuration, with the sizes and ids of the vocabularies.

    Raises:
        ConfigError: If one embedding table is shared by two different vocabularies.
    """
    shape = config.network.transformer(
        source_vocab_size=tokenizer.source_vocab_size,
        target_vocab_size=tokenizer.target_vocab_size,
        pad_id=tokenizer.pad_id,
        bos_id=tokenizer.bos_id,
        eos_id=tokenizer.eos_id,
        unk_id=tokenizer.unk_id,
        decoder_start_id=tokenizer.bos_id,
    )
    require_one_vocabulary(shape, is_shared=tokenizer.is_shared)
    return shape


def _assembled(
    config: TrainConfig,
    folder: RunFolder,
    data: PreparedData,
    network: Transformer,
    lock: FolderLock | None,
    *,
    hook: Hook | None,
    world: World,
    resuming: bool,
) -> Run:
    """The run with its batches, validator, writer and trainer, before any state is restored."""
    device = network.output.weight.device
    batches = BatchStream(
        data.pairs,
        config.batches,
        seed=config.run.seed,
        rank=world.rank,
        world_size=world.size,
        dropout=PieceDropouts.of(data.tokenizer, config.batches, seed=config.run.seed),
        device=device,
    )
    peak = measured_peak(device, config.run.precision)
    if config.run.precision != "float32":
        _warn_of_slow_products(config.run.precision, measured_peak(device, "float32") / peak)
    logger.info("%s parameters on %s", f"{network.num_parameters():,}", device)
    if not resuming:
        _log_expected_time(config, data, network, batches, peak * world.size)
    validator = _validator(config, data, network.config, device, world)
    writer = None
    if world.is_first:
        described = RunDescription(
            config=config, data=_described(config, data), device=device, processes=world.size, peak=peak
        )
        writer = RunWriter(folder, described, shape=network.config, text=data.fingerprints, resuming=resuming)
    trainer = Trainer(
        config,
        Updater(network, config, device, world),
        batches,
        validator=validator,
        writer=writer,
        hook=hook,
        world=world,
        peak=peak * world.size,
    )
    return Run(
        config=config,
        folder=folder,
        data=data,
        network=network,
        batches=batches,
        validator=validator,
        trainer=trainer,
        writer=writer,
        lock=lock,
    )


def _warn_of_slow_products(precision: Precision, times: float) -> None:
    if times > 1.5:  # a measurement next to other work may be off by less
        logger.warning(
            "run.precision %s: matrix products take %.0f times as long as in float32 on this processor; "
            "float32 trains faster here",
            precision,
            times,
        )


def _log_expected_time(
    config: TrainConfig, data: PreparedData, network: Transformer, batches: BatchStream, peak: float
) -> None:
    updates = batches.num_batches() / config.optimisation.accumulate
    minutes = expected_minutes(config, network.config, data.pairs, updates, peak)
    minutes = min(minutes, config.run.max_minutes or minutes)
    hours = f"{int(minutes // 60)} h {int(minutes % 60)} min" if minutes >= 60 else f"{minutes:.0f} min"
    expected = f"about {hours}" if minutes >= 1 else "less than a minute"
    logger.info("an epoch has %s updates; the run will take %s", f"{updates:,.0f}", expected)


def _validator(
    config: TrainConfig, data: PreparedData, shape: TransformerConfig, device: torch.device, world: World
) -> Validator | None:
    if not data.held_out:
        return None
    return Validator(
        Transformer(shape).to(device),
        partial(new_decoder, never_produced=data.tokenizer.target_tag_ids),
        tokenizer=data.tokenizer,
        held_out=data.held_out,
        loss_batches=one_pass(data.held_out_pairs, config.validation.batch_tokens, device),
        options=config.decoding,
        precision=config.run.precision,
        world=world,
    )


def _described(config: TrainConfig, data: PreparedData) -> dict[str, object]:
    return {
        "train": describe_data(config.corpora),
        "validation": describe_data(config.validation_corpora),
        "pairs_kept": data.pairs.index.kept,
        "pairs_dropped": data.pairs.index.dropped,
        "copies_added": data.pairs.index.augmented,
    }


def _require_start(config: TrainConfig) -> None:
    """Refuse a checkpoint that the network cannot start from; needs no vocabulary.

    Raises:
        CheckpointError: If the folder holds no sound checkpoint.
        ConfigError: If the networks differ in more than dropout and vocabulary.
    """
    if config.run.start_from is not None:
        shape = config.network.transformer(source_vocab_size=64, target_vocab_size=64)
        _require_same_shape(load_checkpoint(Path(config.run.start_from)).config, shape)


@torch.no_grad()
def start_from(folder: Path, network: Transformer, tokenizer: Tokenizer) -> int:
    """Copy a checkpoint's weights into a network of the same shape; the vocabularies may differ.

    The embedding rows of pieces that both vocabularies have are copied; other rows keep their initial values.

    Args:
        folder: Folder of a checkpoint.
        network: Initialised network; written in place.
        tokenizer: Tokenizer of the network.

    Returns:
        The number of target pieces that both vocabularies have.

    Raises:
        CheckpointError: If the folder holds no sound checkpoint.
        ConfigError: If the networks differ in more than dropout and vocabulary.
    """
    checkpoint = load_checkpoint(folder)
    _require_same_shape(checkpoint.config, network.config)
    source_rows = _common_rows(_source_pieces(checkpoint.tokenizer), _source_pieces(tokenizer))
    target_rows = _common_rows(_target_pieces(checkpoint.tokenizer), _target_pieces(tokenizer))
    known = dict(checkpoint.network().named_parameters())
    for name, parameter in network.named_parameters():
        if name in _SOURCE_ROWS:
            _copy_rows(known[name], parameter, source_rows)
        elif name in _TARGET_ROWS:
            _copy_rows(known[name], parameter, target_rows)
        else:
            parameter.copy_(known[name])
    return len(target_rows)


def _require_same_shape(theirs: TransformerConfig, ours: TransformerConfig) -> None:
    for field in dataclasses.fields(ours):
        before, now = getattr(theirs, field.name), getattr(ours, field.name)
        if before != now and field.name not in _MAY_DIFFER:
            raise ConfigError(f"network.{field.name}", f"{before!r}, as in the checkpoint to start from", now)


def _common_rows(theirs: Sequence[str], ours: Sequence[str]) -> Mapping[int, int]:
    """Returns our row → their row of each piece that both vocabularies have."""
    places = {piece: row for row, piece in enumerate(theirs)}
    return {row: places[piece] for row, piece in enumerate(ours) if piece in places}


def _copy_rows(theirs: Tensor, ours: Tensor, rows: Mapping[int, int]) -> None:
    ours[list(rows)] = theirs[list(rows.values())]


def _source_pieces(tokenizer: Tokenizer) -> Sequence[str]:
    return tokenizer.source_pieces(range(tokenizer.source_vocab_size))


def _target_pieces(tokenizer: Tokenizer) -> Sequence[str]:
    return tokenizer.pieces(range(tokenizer.target_vocab_size))
