"""Compiles the native library: `python -m model.native.build`. Does nothing if the library is up to date.

The same sources are compiled once for each instruction set. The file name contains a hash of sources
and flags, so that a library is never older than its sources. A damaged library is compiled again. If
the compiler fails for one instruction set, the others are built nevertheless.

`python -m model.native.build --warnings` compiles nothing, and fails if the compiler has warnings.
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

# With contraction, the compiler would choose which products and sums it fuses, and results would differ
# in the last bit. The sources fuse explicitly where that is wanted. An inner loop that begins anywhere takes
# up to a third longer than one at a multiple of 32 bytes (AMD Zen 3).
_FLAGS = (
    *("-std=c++17", "-O3", "-falign-loops=32", "-fno-math-errno", "-ffp-contract=off"),
    *("-shared", "-fPIC", "-fvisibility=hidden", "-Wno-psabi"),
)
_WARNINGS = ("-fsyntax-only", "-Wall", "-Wextra", "-Wconversion", "-Werror")
_SYSTEM, _MACHINE = "Linux", "x86_64"
_COMPILERS = ("c++", "g++", "clang++")
_HASH_DIGITS = 16
_SECONDS = 600


def library_path(variant: str, sources: Path = SOURCES, libraries: Path = LIBRARIES) -> Path:
    """The path of the library for an instruction set, whether it exists or not."""
    return libraries / f"dragoman-{variant}-{_hash(variant, sources)}.so"


def checksum_path(library: Path) -> Path:
    """The path of a library's SHA-256."""
    return library.with_name(f"{library.name}.sha256")


def write_checksum(library: Path) -> None:
    """Write the SHA-256 of a library to a file next to it, as `sha256sum` does."""
    checksum_path(library).write_text(f"{_digest(library)}  {library.name}\n")


def is_intact(library: Path) -> bool:
    """Returns whether a library exists and has its SHA-256. A damaged library would end the process."""
    try:
        return checksum_path(library).read_text().partition(" ")[0] == _digest(library)
    except (OSError, UnicodeDecodeError):
        return False


def _digest(library: Path) -> str:
    return hashlib.sha256(library.read_bytes()).hexdigest()


def build(sources: Path = SOURCES, libraries: Path = LIBRARIES) -> list[Path]:
    """Compile the libraries that are missing or damaged, and remove those of older sources.

    Args:
        sources: Folder of the C++ files, in subfolders.
        libraries: Folder of the libraries.

    Returns:
        The libraries that were compiled.

    Raises:
        NativeError: If there is no compiler, or it fails for every instruction set.
        OSError: If the folder cannot be written to.
    """
    paths = {variant: library_path(variant, sources, libraries) for variant in VARIANTS}
    missing = {variant: path for variant, path in paths.items() if not is_intact(path)}
    failures = _compile_all(missing, sources, libraries) if missing else {}
    if len(failures) == len(paths):
        raise next(iter(failures.values()))
    for error in failures.values():
        logger.warning("continuing without one library: %s", " ".join(str(error).splitlines()[:2]))
    current = {path.name for path in paths.values()}
    for path in libraries.glob("dragoman-*.so*"):
        if path.name.removesuffix(".sha256") not in current:
            path.unlink(missing_ok=True)
    return [path for variant, path in missing.items() if variant not in failures]


def _compile_all(missing: Mapping[str, Path], sources: Path, libraries: Path) -> dict[str, NativeError]:
    """Compile the variants in parallel, and return the error of each that failed."""
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


def check_warnings(sources: Path = SOURCES) -> None:
    """Check the sources for every instruction set, with the compiler's warnings as errors.

    Raises:
        NativeError: If there is no compiler, or it has warnings.
    """
    compiler = _find_compiler()
    for variant in VARIANTS:
        _run_compiler(compiler, variant, sources, _WARNINGS)


def _compile(compiler: Sequence[str], variant: str, sources: Path, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".build-") as folder:
        result = Path(folder) / target.name
        _run_compiler(compiler, variant, sources, ("-o", str(result)))
        # Each file is replaced as a whole. Processes that build at the same time write the same contents.
        write_checksum(result)
        checksum_path(result).replace(checksum_path(target))
        result.replace(target)


def _run_compiler(compiler: Sequence[str], variant: str, sources: Path, options: Sequence[str]) -> None:
    # One translation unit halves the time, because the compiler reads the standard library's headers once.
    unit = "".join(f'#include "{path.relative_to(sources)}"\n' for path in sorted(sources.rglob("*.cpp")))
    command = [*compiler, *_FLAGS, *VARIANTS[variant], f"-I{sources}", *options, "-x", "c++", "-"]
    # The command consists of constants of this module and of CXX.
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


def main(arguments: Sequence[str] = ()) -> int:
    """Build the library, or check it for warnings, and report the outcome on standard error.

    Args:
        arguments: `--warnings` to check, nothing to build.

    Returns:
        The exit status: 1 if the build or the check fails. On other processors and systems there is
        nothing to build, and the status is 0.
    """
    place = platform.system(), platform.machine()
    if place != (_SYSTEM, _MACHINE):
        sys.stderr.write(f"There is no native library for {' on '.join(place)}: decoding will use PyTorch\n")
        return 0
    try:
        if "--warnings" in arguments:
            check_warnings()
            return 0
        built = build()
    except (NativeError, OSError) as error:
        sys.stderr.write(f"The native library was not built, decoding will use PyTorch: {error}\n")
        return 1
    if built:
        sys.stderr.write(f"Built the native library: {', '.join(path.name for path in built)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
