"""⑤ Compiles the native library: `python -m model.native.build`. Does nothing where it is built already.

There is one library for each instruction set, of the same sources. A hash of sources and flags is
part of the file's name, so that a library is never older than its sources; one that is damaged is
compiled again. Where one instruction set cannot be had, the others are built all the same.
"""

import hashlib
import logging
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from model.errors import NativeError


def seal_path(library: Path) -> Path:
    """Where the SHA-256 of a library is."""
    return library.with_name(f"{library.name}.sha256")


def seal(library: Path) -> None:
    """Leave the SHA-256 of a library beside it, as `sha256sum` writes it."""
    seal_path(library).write_text(f"{_digest(library)}  {library.name}\n")


def is_whole(library: Path) -> bool:
    """Whether a library is there, and is what its build made."""
    try:
        return seal_path(library).read_text().partition(" ")[0] == _digest(library)
    except (OSError, UnicodeDecodeError):
        return False


def _digest(library: Path) -> str:
    return hashlib.sha256(library.read_bytes()).hexdigest()


logger = logging.getLogger(__name__)

SOURCES = Path(__file__).parent / "src"
LIBRARIES = Path(__file__).parent / "lib"

_AVX512 = ("-march=x86-64-v4", "-mavx512vnni", "-mavx512bf16")
VARIANTS: Mapping[str, tuple[str, ...]] = {
    "amx": (*_AVX512, "-mamx-tile", "-mamx-bf16", "-mamx-int8"),
    "avx512": _AVX512,
    "avx2": ("-march=x86-64-v3",),
}
"""Instruction sets and their compiler flags, the fastest first."""

# Contraction is off because which products and sums a compiler fuses is its own choice, and it shows in the
# last bit of a result; where one rounding is wanted, the sources say so.
_FLAGS = (
    *("-std=c++17", "-O3", "-fno-math-errno", "-ffp-contract=off"),
    *("-shared", "-fPIC", "-fvisibility=hidden", "-Wno-psabi"),
)
_SYSTEM, _MACHINE = "Linux", "x86_64"
_COMPILERS = ("c++", "g++", "clang++")
_HASH_DIGITS = 16
_SECONDS = 600


def library_path(variant: str, sources: Path = SOURCES, libraries: Path = LIBRARIES) -> Path:
    """Where the library for an instruction set is, or would be."""
    return libraries / f"dragoman-{variant}-{_hash(variant, sources)}.so"


def build(sources: Path = SOURCES, libraries: Path = LIBRARIES) -> list[Path]:
    """Compile what is not there yet, and remove what older sources left.

    Args:
        sources: Folder of the C++ files, in subfolders.
        libraries: Folder for what they become.

    Returns:
        The libraries that were compiled.

    Raises:
        NativeError: If there is no compiler, or it fails and there is no library at all.
        OSError: If the folder cannot be written to.
    """
    paths = {variant: library_path(variant, sources, libraries) for variant in VARIANTS}
    missing = {variant: path for variant, path in paths.items() if not is_whole(path)}
    failures = _compile_all(missing, sources, libraries) if missing else {}
    if len(failures) == len(paths):
        raise next(iter(failures.values()))
    for error in failures.values():
        logger.warning("going on without one library: %s", " ".join(str(error).splitlines()[:2]))
    current = {path.name for path in paths.values()}
    for path in libraries.glob("dragoman-*.so*"):
        if path.name.removesuffix(".sha256") not in current:
            path.unlink(missing_ok=True)
    return [path for variant, path in missing.items() if variant not in failures]


def _compile_all(missing: Mapping[str, Path], sources: Path, libraries: Path) -> dict[str, NativeError]:
    """Side by side; what the compiler says of the variants where it failed."""
    compiler = _find_compiler()
    libraries.mkdir(exist_ok=True)

    def attempt(variant: str) -> NativeError | None:
        try:
            _compile(compiler, variant, sources, missing[variant])
        except NativeError as error:
            return error
        return None

    with ThreadPoolExecutor() as pool:
        outcomes = dict(zip(missing, pool.map(attempt, missing), strict=True))
    return {variant: error for variant, error in outcomes.items() if error is not None}


@cache
def _hash(variant: str, sources: Path) -> str:
    digest = hashlib.sha256(" ".join((*_FLAGS, *VARIANTS[variant])).encode())
    for path in sorted(sources.rglob("*.*")):
        digest.update(str(path.relative_to(sources)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:_HASH_DIGITS]


def _find_compiler() -> Sequence[str]:
    chosen = shlex.split(os.environ.get("CXX", ""))
    for command in [chosen] if chosen else [[name] for name in _COMPILERS]:
        if shutil.which(command[0]):
            return command
    looked_for = chosen[0] if chosen else ", ".join(_COMPILERS)
    raise NativeError(f"no C++ compiler was found (looked for: {looked_for})")


def _compile(compiler: Sequence[str], variant: str, sources: Path, target: Path) -> None:
    # One translation unit: that halves the time, because the standard library's headers are read once.
    unit = "".join(f'#include "{path.relative_to(sources)}"\n' for path in sorted(sources.rglob("*.cpp")))
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".build-") as folder:
        result = Path(folder) / target.name
        command = [
            *compiler,
            *_FLAGS,
            *VARIANTS[variant],
            f"-I{sources}",
            "-x",
            "c++",
            "-",
            "-o",
            str(result),
        ]
        # The command is this module's own, or what the person who builds has put into CXX.
        try:
            outcome = subprocess.run(  # noqa: S603
                command,
                input=unit,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise NativeError(f"{compiler[0]} takes over {_SECONDS} s to compile for {variant}") from error
        if outcome.returncode != 0:
            raise NativeError(f"{compiler[0]} cannot compile the library for {variant}:\n{outcome.stderr}")
        # Nobody ever finds half a library or half a seal; whoever builds at the same time writes the same.
        seal(result)
        seal_path(result).replace(seal_path(target))
        result.replace(target)


def main() -> int:
    """Build and say so in one line; the exit status is 1 where that fails.

    For another kind of processor or system there is nothing to build, and nothing fails.
    """
    place = platform.system(), platform.machine()
    if place != (_SYSTEM, _MACHINE):
        sys.stderr.write(f"There is no native library for {' on '.join(place)}: decoding will use PyTorch\n")
        return 0
    try:
        built = build()
    except (NativeError, OSError) as error:
        sys.stderr.write(f"The native library was not built, decoding will use PyTorch: {error}\n")
        return 1
    if built:
        sys.stderr.write(f"Built the native library: {', '.join(path.name for path in built)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
