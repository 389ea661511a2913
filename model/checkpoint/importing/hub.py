"""Models of the Hugging Face hub, through `huggingface_hub` with its cache and environment variables."""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from model.errors import CheckpointError, ConfigError

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
