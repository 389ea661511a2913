"""Checkpoint folders of the random networks, with a real tokenizer, so that text goes in and comes out."""

import shutil
from pathlib import Path

from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from benchmarks.shapes import SHAPES, endless_network
from model.checkpoint.card import ModelCard
from model.checkpoint.folder import save_checkpoint
from model.checkpoint.paths import checkpoint_folders
from model.request import DecodeOptions
from model.text.tokenizer import SETTINGS_FILE, SHARED_FILE

(EMBEDDED,) = checkpoint_folders(Path(__file__).parents[1] / "checkpoints")
LONGEST = 256
# Below the score of any piece that was learnt: no text is ever cut into these.
_UNUSED_SCORE = -100.0


def random_checkpoint(folder: Path, shape: str, seed: int) -> Path:
    """Write a checkpoint of a network that never ends a sentence.

    Args:
        folder: Where; replaced if it is there.
        shape: A key of SHAPES.
        seed: Of the weights.

    Returns:
        The folder.
    """
    network = endless_network(SHAPES[shape], seed)
    tokenizer = folder.with_name(f"{folder.name}-tokenizer")
    resized_tokenizer(tokenizer, SHAPES[shape].target_vocab_size)
    save_checkpoint(
        folder,
        config=network.config,
        weights=network.state_dict(),
        card=ModelCard(
            name=shape,
            version="random",
            pairs=(("en", "fr"), ("fr", "en")),
            max_source_length=LONGEST,
            max_target_length=LONGEST,
            decoding=DecodeOptions(strategy="greedy"),
        ),
        tokenizer_folder=tokenizer,
        provenance={"data": "none: random weights of benchmarks/shapes.py", "seed": seed},
    )
    shutil.rmtree(tokenizer)
    return folder


def resized_tokenizer(folder: Path, vocab_size: int) -> None:
    """Write the embedded checkpoint's tokenizer, without its rarest pieces or with made-up words.

    Args:
        folder: Made if need be.
        vocab_size: How many pieces it is to have.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model = ModelProto()
    model.ParseFromString((EMBEDDED / SHARED_FILE).read_bytes())
    del model.pieces[vocab_size:]
    for number in range(len(model.pieces), vocab_size):
        model.pieces.add(piece=f"\u2581w{number}x", score=_UNUSED_SCORE)
    model.trainer_spec.vocab_size = vocab_size
    (folder / SHARED_FILE).write_bytes(model.SerializeToString())
    shutil.copyfile(EMBEDDED / SETTINGS_FILE, folder / SETTINGS_FILE)
