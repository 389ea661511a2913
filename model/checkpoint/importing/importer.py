"""`dragoman import`: a model of another framework becomes a checkpoint folder, in one step.

Models of the Hugging Face hub come through `huggingface_hub`, with its cache and environment variables.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from model.checkpoint.card import ModelCard, Pair
from model.checkpoint.folder import Checkpoint, load_checkpoint
from model.checkpoint.importing.formats import FORMATS, Format, recognise
from model.checkpoint.importing.reader import ForeignModel, Reader
from model.checkpoint.manifest import (
    CONFIG,
    ORIGIN,
    check_format_version,
    file_record,
    read_config,
    write_config,
    write_errors,
    write_provenance,
)
from model.checkpoint.shortlist import write_shortlist
from model.checkpoint.weights import StorageType
from model.checkpoint.weights_writer import write_weights
from model.decode_request import DecodeOptions
from model.errors import CheckpointError, ConfigError, TokenizerError, TranslationError
from model.files import atomic_folder
from model.text.tokenizer import write_tokenizer
from model.validators import require_choice

_MOST_NAMES = 10
_HINTS = {
    ".onnx": "for ONNX files, import the PyTorch model that they were made of",
    ".gguf": "GGUF files hold language models",
    ".h5": "TensorFlow's weights are not read, PyTorch's of the same model are",
    ".pt": "for fairseq's files, import what ct2-fairseq-converter makes of them",
}
"""What messages add for files that other frameworks make."""
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_FILE = re.compile(r"[\w.+-]+")
_ALWAYS = (".json", ".spm", ".model", ".vocab", ".txt", ".yml", ".argosmodel")
_FAST_TOKENIZER = "tokenizer.json"
"""Needed only where there is no SentencePiece model."""
_WEIGHTS = (
    re.compile(r"model(-\d+-of-\d+)?\.safetensors"),
    re.compile(r"pytorch_model(-\d+-of-\d+)?\.bin"),
    re.compile(r".*\.npz|model\.bin|(model|lex)\..*\.bin(\.gz)?"),
)
"""Weights in the order of preference; only the first kind that a model has is downloaded."""


def import_model(
    path: Path,
    folder: Path,
    *,
    format_name: str | None = None,
    pair: Pair | None = None,
    name: str | None = None,
    storage: StorageType | None = None,
    origin: Mapping[str, object] | None = None,
    verify: Callable[[Checkpoint], None] | None = None,
) -> None:
    """Converts a model to a checkpoint folder, which is written completely or not at all.

    Args:
        path: File or folder of the model.
        folder: Folder to write; an existing one is replaced.
        format_name: Name of one of FORMATS; None recognises the format.
        pair: Languages, if the model does not name its own, or one of the pairs that it names.
        name: Name of the checkpoint; None takes the model's, or that of `folder` if another checkpoint in the
            same place has the model's.
        storage: Type to store weights in, see `write_weights`; None keeps the model's types.
        origin: Values for provenance.json that only the caller knows, such as a revision.
        verify: Called with the verified checkpoint before it is put in place; raises an error to refuse it.

    Raises:
        CheckpointError: If the model is broken, of no known format, or cannot be computed.
        ConfigError: If `format_name` is not the name of a format, or `name` is not the name of a model.
    """
    if not path.exists():
        raise CheckpointError(f"{path} does not exist")
    chosen = _named(format_name) if format_name else _recognised(path)
    model = _read(chosen, path, pair)
    files = {file.name: file_record(file).sha256 for file in model.files}
    known: Mapping[str, object] = {"format": chosen.name, **model.origin, "files": files, **(origin or {})}
    card = _card(model, path, name or _free_name(model.name, folder), known)
    with write_errors(folder), atomic_folder(folder) as temporary:
        try:
            _write(model, card, temporary, storage)
            del model
            write_provenance(temporary, {ORIGIN: known})
            checkpoint = load_checkpoint(temporary)
            if verify:
                verify(checkpoint)
        except CheckpointError as error:
            # The temporary folder means nothing to a user, nor do weights of no name.
            message = str(error).replace(str(temporary), str(path))
            raise CheckpointError(message.replace("the weights:", f"the weights of {path}:", 1)) from error


def _read(chosen: Format, path: Path, pair: Pair | None) -> ForeignModel:
    try:
        return cast(Reader, chosen.reader).read(path, pair)
    except (ConfigError, TokenizerError) as error:
        raise CheckpointError(f"{path}: {error}") from error
    except CheckpointError as error:
        reason = str(error).removeprefix(f"checkpoint {path} is incomplete: ")
        if reason == str(error):
            raise
        raise CheckpointError(f"{path} cannot be read as {chosen.title}: {reason}") from error
    except TranslationError:
        raise
    # Readers refuse what they expect to be wrong; a damaged file may also break what they are built on.
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise CheckpointError(f"{path} cannot be read as {chosen.title}: {reason}") from error


def _named(name: str) -> Format:
    require_choice("format", name, [each.name for each in FORMATS])
    return next(each for each in FORMATS if each.name == name)


def _recognised(path: Path) -> Format:
    problems: list[Exception] = []
    if found := recognise(path, problems):
        return found
    raise CheckpointError(str(problems[0]) if problems else _advice(path))


def _advice(path: Path) -> str:
    """Returns the line that tells what to import instead of a path of no known format."""
    with suppress(CheckpointError):
        check_format_version(path)
        return f"{path} is a checkpoint of Dragoman, which needs no import"
    inside = sorted(path.iterdir()) if path.is_dir() else []
    models = [str(each) for each in inside or [path.parent] if recognise(each)]
    if models:
        return f"{path} is not a model itself: import {' or '.join(models[:_MOST_NAMES])}"
    holds = f" (it holds {', '.join(each.name for each in inside[:_MOST_NAMES])})" if inside else ""
    ends = {each.suffix for each in (path, *inside)}
    hint = next((f"; {text}" for end, text in _HINTS.items() if end in ends), "")
    known = ", ".join(f"{each.title} ({each.files})" for each in FORMATS)
    return f"{path}{holds} is of no format that can be imported{hint}. Name {known}"


def _free_name(name: str, folder: Path) -> str:
    """Returns a name that no other checkpoint next to a folder has, so that all can be served together."""
    for config in sorted(folder.absolute().parent.glob(f"*/{CONFIG}")):
        if config.parent.name == folder.name:
            continue
        try:
            _, card = read_config(config.parent)
        except CheckpointError:
            continue
        if card.name == name:
            return folder.name
    return name


def _card(model: ForeignModel, path: Path, name: str, origin: Mapping[str, object]) -> ModelCard:
    try:
        return ModelCard(
            name=name,
            version=str(origin.get("revision", "1"))[:12],
            pairs=tuple(model.text.pairs),
            max_source_length=model.max_source_length,
            max_target_length=model.max_target_length,
            decoding=DecodeOptions.from_dict(model.decoding),
            licence=model.licence,
            origin=str(origin.get("source", path.name)),
        )
    except ConfigError as error:
        if error.field == "name":
            raise
        raise CheckpointError(f"{path}: {error}") from error


def _write(model: ForeignModel, card: ModelCard, folder: Path, storage: StorageType | None) -> None:
    write_config(folder, model.config, card)
    text = model.text
    write_tokenizer(folder, text.settings, models=text.models, vocabularies=text.vocabularies)
    write_weights(folder, model.config, model.tensors, storage)
    if model.shortlist is not None:
        write_shortlist(folder, model.shortlist)


def is_hub_name(origin: str) -> bool:
    """Returns whether a text has the form of a model's name, OWNER/NAME."""
    return _NAME.fullmatch(origin) is not None


@contextmanager
def downloaded(name: str, revision: str | None) -> Iterator[tuple[Path, str]]:
    """Downloads what an import needs of a model, or finds it in the cache.

    Args:
        name: OWNER/NAME.
        revision: Branch, tag or commit; None is the main branch.

    Yields:
        A folder of the model's name, which lasts as long as the block, and the commit.

    Raises:
        ConfigError: If `huggingface_hub` is not installed.
        CheckpointError: If the model cannot be had; the message names it and the reason.
    """
    try:
        from huggingface_hub import HfApi, constants, snapshot_download
    except ModuleNotFoundError:
        requirement = "a path, as huggingface_hub is not installed (pip install --editable '.[import]')"
        raise ConfigError("origin", requirement, name) from None
    try:
        if constants.HF_HUB_OFFLINE:
            place = _cached(Path(constants.HF_HUB_CACHE), name, revision or "main")
        else:
            found = HfApi().model_info(name, revision=revision)
            files = needed_files([each.rfilename for each in found.siblings or ()])
            place = Path(snapshot_download(name, revision=revision, allow_patterns=files))
    # The package raises errors of its own, of its HTTP client and of the system.
    except Exception as error:
        reason = str(error).strip().splitlines()[:1] or [type(error).__name__]
        where = f"{constants.ENDPOINT}, and there is no such path"
        raise CheckpointError(f"cannot get {name} from {where}: {reason[0]}") from error
    with TemporaryDirectory(prefix="dragoman-hub-") as temporary:
        folder = Path(temporary, name.rpartition("/")[2])
        folder.symlink_to(place, target_is_directory=True)
        yield folder, place.name


def _cached(cache: Path, name: str, revision: str) -> Path:
    """Returns the folder of a model in the cache, where a branch or tag is a file with the commit."""
    model = cache / f"models--{name.replace('/', '--')}"
    branch = model / "refs" / revision
    commit = branch.read_text(encoding="utf-8") if branch.is_file() else revision
    place = model / "snapshots" / commit
    if not place.is_dir():
        raise FileNotFoundError(f"HF_HUB_OFFLINE is set, and {cache} does not have it")
    return place


def needed_files(names: Collection[str]) -> list[str]:
    """Returns the files of a model that an import reads: settings, tokenizer, one kind of weights, README."""
    plain = [name for name in names if _FILE.fullmatch(name)]
    if any(name.endswith((".spm", ".model")) for name in plain):
        plain = [name for name in plain if name != _FAST_TOKENIZER]
    weights = (list(filter(kind.fullmatch, plain)) for kind in _WEIGHTS)
    others = [name for name in plain if name.endswith(_ALWAYS) or name == "README.md"]
    return [*others, *next(filter(None, weights), [])]
