"""The Dockerfile, as far as it can be judged without building it."""

import json
import re
import subprocess
import sys
from fnmatch import fnmatch
from importlib.metadata import packages_distributions, requires
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name as canonical_name

ROOT = Path(__file__).parents[2]
STAGES = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").split("\nFROM ")[1:]
FINAL = STAGES[-1]


def context_files() -> list[str]:
    """What the Dockerfile copies out of the build context."""
    copies = re.findall(r"^COPY (?!--from)(.+)$", "\n".join(STAGES), flags=re.MULTILINE)
    return [source for copy in copies for source in copy.split()[:-1]]


def test_what_is_copied_exists_and_is_sent_to_the_builder() -> None:
    sent = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for source in context_files():
        assert (ROOT / source).exists(), source
        assert any(fnmatch(source, pattern) for pattern in sent), source


def test_nothing_is_sent_that_is_not_copied() -> None:
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert sent == set(context_files())


def test_the_process_is_not_root_and_a_file_checks_its_health() -> None:
    assert re.search(r"^USER 10001:10001$", FINAL, flags=re.MULTILINE)
    check = re.search(r'^HEALTHCHECK .*CMD \["python", "(.+)"\]$', FINAL, flags=re.MULTILINE)
    workdir = re.search(r"^WORKDIR (.+)$", FINAL, flags=re.MULTILINE)
    assert check is not None
    assert workdir is not None
    assert check.group(1) == f"{workdir.group(1)}/healthcheck.py"


def test_the_last_stage_is_the_service_and_it_installs_nothing_on_a_cpu() -> None:
    assert [stage.split("\n")[0].partition(" AS ")[2] for stage in STAGES] == ["build", "load", ""]
    (installing,) = (line for line in FINAL.split("\n") if "apt-get" in line)
    assert installing.startswith('RUN if [ "$VARIANT" = cuda ]; then ')
    assert "pip install" not in FINAL


def test_triton_finds_a_compiler_and_a_folder_from_which_it_may_load() -> None:
    assert "apt-get install --yes --no-install-recommends gcc libc6-dev" in FINAL
    assert "HOME=/tmp" in FINAL
    service = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["dragoman-gpu"]
    assert service["tmpfs"] == ["/tmp:exec"]


def test_the_native_library_is_built_into_what_is_shipped() -> None:
    build = STAGES[0]
    assert "python -P -m model.native.build" in build[build.index("pip install --no-deps .") :]
    assert "apt-get install --yes --no-install-recommends g++" in build
    assert "COPY --from=build /opt/venv /opt/venv" in FINAL


def test_the_load_generator_is_not_root_and_has_the_pinned_versions() -> None:
    load = STAGES[1]
    assert re.search(r"^USER 10001:10001$", load, flags=re.MULTILINE)
    assert "pip install --constraint" in load
    assert "COPY --from=load" not in FINAL


@pytest.mark.skipif(not find_spec("locust"), reason="locust is not installed (extra `load`)")
def test_the_load_generator_imports_only_what_its_stage_installs() -> None:
    (installed,) = re.findall(r"^RUN pip install --constraint \S+ (.+)$", STAGES[1], flags=re.MULTILINE)
    available = _with_dependencies(installed.split())
    missing = [
        name
        for name, distributions in packages_distributions().items()
        if not available & {canonical_name(each) for each in distributions}
    ]
    script = (
        "import json, sys; sys.modules.update(dict.fromkeys(json.load(sys.stdin)));"
        "import benchmarks.load.__main__, benchmarks.load.overload, benchmarks.load.scenarios"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(missing),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr


def _with_dependencies(names: list[str]) -> set[str]:
    """Distributions and all that they need here, by canonical names."""
    found: set[str] = set()
    while names:
        name = canonical_name(names.pop())
        if name in found:
            continue
        found.add(name)
        needed = (Requirement(each) for each in requires(name) or [])
        names += [each.name for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]
    return found


def test_every_stage_uses_the_same_pinned_base() -> None:
    assert {stage.split()[0] for stage in STAGES} == {"python:${PYTHON_VERSION}-slim-bookworm"}
