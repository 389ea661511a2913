"""Marian's Transformers: Firefox Translations, Bergamot, and OPUS-MT's original files. No torch."""

import re
from collections.abc import Mapping
from pathlib import Path

from model.checkpoint.card import Pair
from model.checkpoint.importing.formats.marian.binary_files import MarianFile, read_marian_shortlist
from model.checkpoint.importing.formats.marian.folder import (
    MarianFolder,
    MarianVocabulary,
    has_marian_weights,
    open_folder,
    read_vocabulary,
)
from model.checkpoint.importing.formats.marian.network import MarianNetwork
from model.checkpoint.importing.languages import chosen_pairs
from model.checkpoint.importing.reader import ForeignModel, ForeignText, card_name, refusal

# Mozilla names its files so, and publishes them under this licence.
_FIREFOX = re.compile(r"model\.[a-z]{4}\.intgemm\.alphas\.bin(\.gz)?")
_FIREFOX_LICENCE = "MPL-2.0"


def recognises(path: Path) -> bool:
    """Returns whether a path is Marian's weight file, or a folder with one."""
    return has_marian_weights(path)


def read(path: Path, pair: Pair | None) -> ForeignModel:
    """Reads a Transformer whose decoder has self-attention or SSRU cells.

    Raises:
        CheckpointError: If a file is broken, or a field of special:model.yml cannot be computed.
    """
    folder = open_folder(path)
    network = MarianNetwork(MarianFile(folder.weights))
    vocabulary = read_vocabulary(folder, (network.source_size, network.target_size))
    config = network.config(vocabulary.eos_id, vocabulary.unk_id)
    known = [] if pair and vocabulary.tags else folder.pairs(is_guessed=pair is None)
    (languages,) = chosen_pairs(folder.path, known, pair, vocabulary.tags)
    is_firefox = _FIREFOX.fullmatch(folder.weights.name) is not None
    return ForeignModel(
        config=config,
        tensors=network.tensors(config),
        text=ForeignText(
            settings=vocabulary.settings(config, languages[1]),
            models=vocabulary.models,
            vocabularies=vocabulary.lists(config),
            pairs=[languages],
        ),
        name=card_name(folder.information.get("shortName"), folder.path.resolve().name, default="marian"),
        max_source_length=config.max_positions,
        max_target_length=config.max_positions,
        decoding=_decoding(folder, vocabulary),
        licence=_FIREFOX_LICENCE if is_firefox else "",
        shortlist=read_marian_shortlist(folder.shortlist, config) if folder.shortlist else None,
        files=folder.files,
        origin={
            "release": network.version,
            "information": dict(folder.information),
        },
    )


def _decoding(folder: MarianFolder, vocabulary: MarianVocabulary) -> Mapping[str, object]:
    """Returns the options of the decoder's configuration; Marian never produces `<unk>` unless told to."""
    if folder.number("word-penalty", 0):
        raise refusal(folder.path, "word-penalty", "0", folder.number("word-penalty", 0))
    beam_size = int(folder.number("beam-size", 1))
    unknown = [] if folder.decoder.get("allow-unk", False) is True else [vocabulary.unk_id]
    # Marian's beam ends with its last hypothesis, but gets narrower by each that has finished.
    beam = {"strategy": "beam", "beam_size": beam_size, "stop": "count"}
    return {
        **(beam if beam_size > 1 else {"strategy": "greedy"}),
        "length_penalty": folder.number("normalize", 0),
        "max_length_ratio": folder.number("max-length-factor", 3),
        "suppress_ids": sorted({*unknown, *vocabulary.control_bytes()}),
    }
