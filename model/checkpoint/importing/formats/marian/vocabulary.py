"""ⓕ Marian's vocabularies: SentencePiece models, with or without lists of pieces (`vocab.yml`). No torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from model.checkpoint.importing.foreign import refusal
from model.checkpoint.importing.formats.marian.file import read_yaml, unpacked
from model.checkpoint.importing.formats.marian.folder import MarianFolder
from model.checkpoint.importing.text import filled, language_tags, load_sentencepiece, pieces_of
from model.config import TransformerConfig
from model.errors import CheckpointError
from model.text.languages import bare_tag
from model.text.tokenizer import (
    SHARED_FILE,
    SHARED_VOCABULARY,
    SOURCE_FILE,
    SOURCE_VOCABULARY,
    TARGET_FILE,
    TARGET_VOCABULARY,
    TokenizerSettings,
)

_SENTENCEPIECE = (".spm", ".spm.gz")
_END, _UNKNOWN = "</s>", "<unk>"
_CONTROL_BYTES = frozenset(f"<0x{byte:02X}>" for byte in range(32))


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The vocabularies of both sides.

    Attributes:
        pieces: The pieces of the source and of the target, by id.
        eos_id: Id of `</s>` on both sides.
        unk_id: Id of `<unk>` on both sides.
        models: Content of the SentencePiece models, by our file names.
        is_list: Whether ids are those of lists, not those of the SentencePiece models.
    """

    pieces: tuple[Sequence[str], Sequence[str]]
    eos_id: int
    unk_id: int
    models: Mapping[str, bytes]
    is_list: bool

    def control_bytes(self) -> list[int]:
        """Returns the target ids of control characters, which Marian does not produce."""
        return [id_ for id_, piece in enumerate(self.pieces[1]) if piece in _CONTROL_BYTES]

    @property
    def tags(self) -> dict[str, str]:
        """The source pieces that ask for a target language, by language."""
        return language_tags(piece for piece in self.pieces[0] if bare_tag(piece))

    def settings(self, config: TransformerConfig, target: str) -> TokenizerSettings:
        """Returns the tokenizer's settings: text as typed, the network's special ids, the target's tag.

        Args:
            config: The network.
            target: Code of the target language; if the source has tags of languages, one must be its.

        Raises:
            CheckpointError: If it has others only.
        """
        names = ("pad", "bos", "eos", "unk")
        ids = {name: int(getattr(config, f"{name}_id")) for name in names}
        tags = self.tags
        if tags and target not in tags:
            known = ", ".join(sorted(tags))
            raise CheckpointError(
                f"the model translates into {known}: choose one, as in --pair en-{min(tags)}"
            )
        return TokenizerSettings(special_ids=ids, prepare="none", tags={target: tags[target]} if tags else {})

    def lists(self, config: TransformerConfig) -> dict[str, Sequence[str]]:
        """Returns the lists of pieces, by our file names; none if the models' own ids are the network's."""
        rows = config.bos_id
        if not self.is_list and all(len(pieces) == rows for pieces in self.pieces):
            return {}
        source, target = (filled(pieces, rows) for pieces in self.pieces)
        if source == target:
            return {SHARED_VOCABULARY: source}
        return {SOURCE_VOCABULARY: source, TARGET_VOCABULARY: target}


def read_vocabulary(folder: MarianFolder, sizes: tuple[int, int]) -> Vocabulary:
    """Reads the vocabularies of a model.

    Args:
        folder: The model's files.
        sizes: Rows of the source's and the target's embedding.

    Raises:
        CheckpointError: If a file is broken, or has more pieces than the embedding has rows.
    """
    is_list = not folder.vocabularies[0].name.endswith(_SENTENCEPIECE)
    paths = folder.sentencepiece if is_list else folder.vocabularies
    contents = [unpacked(path) for path in paths]
    processors = [load_sentencepiece(path, content) for path, content in zip(paths, contents, strict=True)]
    if is_list:
        source, target = (_pieces_of_list(path) for path in folder.vocabularies)
    else:
        source, target = map(pieces_of, processors)
    for path, pieces, size in zip(folder.vocabularies, (source, target), sizes, strict=True):
        if len(pieces) > size:
            raise refusal(path, "size", f"at most {size}, the rows of the embedding", len(pieces))
    ends, unknowns = (_common_id(folder, (source, target), piece) for piece in (_END, _UNKNOWN))
    names = (SHARED_FILE,) if paths[0] == paths[1] else (SOURCE_FILE, TARGET_FILE)
    return Vocabulary(
        pieces=(source, target),
        eos_id=ends,
        unk_id=unknowns,
        models=dict(zip(names, contents, strict=False)),
        is_list=is_list,
    )


def _pieces_of_list(path: Path) -> list[str]:
    values = read_yaml(unpacked(path), str(path), as_text=True)
    ids = {int(str(id_)): piece for piece, id_ in values.items() if str(id_).isdigit()}
    if len(values) != len(ids) or ids.keys() != set(range(len(ids))):
        raise refusal(path, "ids", f"the numbers from 0 to {len(values) - 1}", f"{len(ids)} different ones")
    return [ids[id_] for id_ in range(len(ids))]


def _common_id(folder: MarianFolder, sides: tuple[Sequence[str], Sequence[str]], piece: str) -> int:
    for path, pieces in zip(folder.vocabularies, sides, strict=True):
        if piece not in pieces:
            raise CheckpointError(f"{path} must have the piece {piece!r}")
    source, target = (pieces.index(piece) for pieces in sides)
    if source != target:
        raise refusal(folder.vocabularies[1], piece, f"id {source}, as on the source's side", target)
    return source
