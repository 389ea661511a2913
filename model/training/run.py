"""ⓐ–ⓕ A whole run, from corpora to checkpoint folders: the parts are put together here."""

import json
import logging
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from model.checkpoint.folder import save_checkpoint
from model.checkpoint.self_test import GOLDEN
from model.config import TransformerConfig
from model.errors import DivergenceError, TrainingError
from model.files import restore, write_text_whole
from model.network.transformer import Transformer
from model.text.tokenizer import Tokenizer
from model.training.config.train_config import TrainConfig, require_one_vocabulary
from model.training.data.batches import BatchStream
from model.training.data.piece_dropout import PieceDropouts
from model.training.data.preparation import PreparedData, one_pass, prepare_data, text_fingerprints
from model.training.device import choose_device, require_batches_for_all, require_precision
from model.training.distributed.world import ALONE, World
from model.training.report.log import Journal, tensorboard_writer
from model.training.report.provenance import describe_data, provenance
from model.training.report.report import conclude
from model.training.report.utilisation import measured_peak
from model.training.run_folder.checkpoint_retention import CheckpointShelf
from model.training.run_folder.folder import FolderLock, RunFolder
from model.training.run_folder.resume_checks import require_same_text, require_unchanged
from model.training.run_folder.state import has_run_state, seed_everything
from model.training.step import Updater
from model.training.trainer import EndReason, Hook, Trainer
from model.training.validation import Validator
from model.training.validation_decoder import new_decoder
from model.training.warm_start import require_start, start_from

logger = logging.getLogger(__name__)


class Run:
    """A training run in its folder.

    Args:
        config: Everything about it.
        resume: Go on from the saved state; without one yet, say so and begin.
        hook: Called after every update.
        world: The processes that train together; the first of them alone writes into the folder, which
            all of them must see.

    Attributes:
        shape: Of the network.
        network: In training.
        trainer: Runs the loop.
        journal: The run's log.

    Raises:
        ConfigError: If the configuration cannot work here, or differs from what the run began with.
        TrainingError: If the folder holds a run already and `resume` is not given, or files that are no
            run's where a run writes.
        CorpusError: If the data cannot be used.
    """

    def __init__(
        self, config: TrainConfig, *, resume: bool = False, hook: Hook | None = None, world: World = ALONE
    ) -> None:
        self.config = config
        self.folder = RunFolder(Path(config.run.folder))
        self._world = world
        self._lock: FolderLock | None = None
        with ExitStack() as undo:
            undo.callback(self._unlock)
            world.require_same("configuration", json.dumps(config.to_dict()))
            require_batches_for_all(config, world)
            self._device = choose_device(config.run.device, world)
            require_precision(config.run.precision, self._device)
            resuming = bool(world.highest(self._claim_folder(resume) if world.is_first else False))
            if config.run.start_from is not None and not resuming:
                require_start(Path(config.run.start_from), config.network)
            seed_everything(config.run.seed)
            with world.in_turn():
                self._data = prepare_data(config, self.folder, keep_tokenizer=resuming, writes=world.is_first)
                self._described = self._describe_data()
            world.require_same("data", json.dumps(self._data.fingerprints))
            self.shape = network_config(config, self._data.tokenizer)
            self.journal = self._open_journal(resuming)
            self.network = self._first_network(resuming).to(self._device)
            world.copy_from_first(list(self.network.parameters()))
            self.trainer = self._build_trainer(hook)
            if resuming:
                self.trainer.resume()
                world.require_same("saved state", str(self.trainer.position))
                logger.info("resuming at step %d", self.trainer.position.step)
            if world.is_first:
                self._note_configuration()
            undo.pop_all()

    def run(self) -> EndReason:
        """Train to the end, then leave `provenance.json` and a report in the folder.

        A run that is interrupted leaves no report: what is about to end a process may not wait for one.

        Raises:
            TrainingError: As Trainer.run.
        """
        with self._closing():
            try:
                reason = self.trainer.run()
            except DivergenceError:
                self._conclude("divergence")
                raise
            self._conclude(reason)
        return reason

    def _conclude(self, ended_by: str) -> None:
        if not self._world.is_first:
            return
        validations = self.journal.events("validation")
        described = self.describe(validations[-1] if validations else None)
        has_ended = ended_by != "interrupted"
        if self.config.run.plots and not has_ended:
            logger.info("no report of an interrupted run; `dragoman report %s` writes one", self.folder.root)
        conclude(self.folder, described | {"ended_by": ended_by}, report=self.config.run.plots and has_ended)

    def _first_network(self, resuming: bool) -> Transformer:
        network = Transformer(self.shape)
        origin = self.config.run.start_from
        if origin is not None and not resuming:
            known = start_from(Path(origin), network, self._data.tokenizer)
            logger.info(
                "starting from %s, which knows %d of the %d pieces",
                origin,
                known,
                self.shape.target_vocab_size,
            )
        return network

    @contextmanager
    def _closing(self) -> Iterator[None]:
        """Let go of files and threads afterwards, and say what the disk's refusal means for the run."""
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            kept = "what was saved before is kept, continue it with --resume"
            raise TrainingError(f"cannot write to {self.folder.root}: {reason}; {kept}") from error
        finally:
            self._batches.close()
            self.journal.close()
            self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def _claim_folder(self, resume: bool) -> bool:
        """Make the folder ours; True if there is a state to go on from."""
        if foreign := self.folder.foreign_parts:
            names = ", ".join(part.name for part in foreign)
            kept = f"{self.folder.root} holds {names}, which no run has written"
            raise TrainingError(f"{kept}: name a new or an empty folder")
        try:
            self.folder.root.mkdir(parents=True, exist_ok=True)
            self._lock = FolderLock(self.folder.lock)
        except OSError as error:
            raise TrainingError(f"cannot write to {self.folder.root}: {error.strerror}") from error
        restore(self.folder.state)
        has_state = has_run_state(self.folder.state)
        if has_state and not resume:
            raise TrainingError(f"{self.folder.root} holds a run already: give --resume, or another folder")
        if has_state:
            require_unchanged(self.folder, self.config)
            require_same_text(self.folder, text_fingerprints(self.config, self.folder))
        elif self.folder.checkpoints.exists():
            kept = f"{self.folder.root} holds checkpoints, but no state to go on from"
            raise TrainingError(f"{kept}: remove it, or name another folder")
        elif resume:
            logger.warning("%s holds no state to resume from: the run begins", self.folder.root)
        return has_state

    def _note_configuration(self) -> None:
        try:
            text = json.dumps(self.config.to_dict(), indent=2, ensure_ascii=False)
            write_text_whole(self.folder.config, text + "\n")
        except OSError as error:
            raise TrainingError(f"cannot write to {self.folder.root}: {error.strerror}") from error

    def _describe_data(self) -> dict[str, object]:
        if not self._world.is_first:
            return {}
        index = self._data.pairs.index
        return {
            "train": describe_data(self.config.corpora),
            "validation": describe_data(self.config.validation_corpora),
            "pairs_kept": index.kept,
            "pairs_dropped": index.dropped,
            "copies_added": index.augmented,
        }

    def _open_journal(self, resuming: bool) -> Journal:
        if not self._world.is_first:
            return Journal(self.folder.log)
        if not resuming:
            self.folder.log.unlink(missing_ok=True)
            shutil.rmtree(self.folder.translations, ignore_errors=True)
        wanted = self.config.run.tensorboard
        return Journal(self.folder.log, tensorboard_writer(self.folder.tensorboard) if wanted else None)

    def _build_trainer(self, hook: Hook | None) -> Trainer:
        config, device = self.config, self._device
        self._batches = BatchStream(
            self._data.pairs,
            config.batches,
            seed=config.run.seed,
            rank=self._world.rank,
            world_size=self._world.size,
            decoder_start_id=self.shape.decoder_start_id,
            dropout=PieceDropouts.of(self._data.tokenizer, config.batches, seed=config.run.seed),
            device=device,
        )
        self._peak = measured_peak(device, config.run.precision)
        self._validator = self._build_validator(self._data)
        logger.info("%s parameters on %s", f"{self.network.num_parameters():,}", device)
        return Trainer(
            config,
            Updater(self.network, self.shape, config, device, self._world),
            self._batches,
            validator=self._validator,
            folder=self.folder,
            shelf=CheckpointShelf(
                self.folder.checkpoints, self._save_checkpoint, config.validation.keep_best
            ),
            journal=self.journal,
            text=self._data.fingerprints,
            hook=hook,
            world=self._world,
            peak=self._peak * self._world.size,
        )

    def _build_validator(self, data: PreparedData) -> Validator | None:
        if not data.held_out:
            return None
        tags = data.tokenizer.target_tag_ids
        return Validator(
            Transformer(self.shape).to(self._device),
            partial(new_decoder, never_produced=tags),
            tokenizer=data.tokenizer,
            held_out=data.held_out,
            loss_batches=one_pass(data.held_out_pairs, self.config.validation.batch_tokens, self._device),
            options=self.config.decoding,
            precision=self.config.run.precision,
            world=self._world,
        )

    def _save_checkpoint(self, folder: Path, weights: Mapping[str, Tensor], step: int) -> None:
        scores = [event for event in self.journal.events("validation") if event["step"] == step]
        save_checkpoint(
            folder,
            config=self.shape,
            weights=weights,
            card=self.config.model_card(),
            tokenizer_folder=self.folder.tokenizer,
            provenance=self.describe(scores[-1] if scores else None) | self._golden(),
            storage_dtype=getattr(torch, self.config.run.checkpoint_precision),
        )

    def _golden(self) -> dict[str, object]:
        """Golden sentences of the weights that are being kept; those were just judged."""
        if self._validator is None:
            return {}
        return {GOLDEN: [sentence.to_dict() for sentence in self._validator.golden_sentences()]}

    def describe(self, scores: Mapping[str, Any] | None) -> dict[str, object]:
        """Provenance of the weights as they are now."""
        return provenance(
            self.config,
            self._described,
            position=self.trainer.position,
            scores=scores,
            device=self._device,
            processes=self._world.size,
            peak=self._peak,
            mfu=[event["mfu"] for event in self.journal.events("update") if "mfu" in event],
        )


def network_config(config: TrainConfig, tokenizer: Tokenizer) -> TransformerConfig:
    """The network's configuration, with the vocabulary's sizes and ids.

    Raises:
        ConfigError: If one table of embeddings is to serve two vocabularies.
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
