"""The Compose stack: hardened, complete, and pointing at files that exist."""

from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
VARIANTS = ("dragoman", "dragoman-gpu")
OURS = (*VARIANTS, "load")


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_confined(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert service["mem_limit"]
    assert service["pids_limit"]
    assert service["tmpfs"][0].partition(":")[0] == "/tmp"
    assert "privileged" not in service
    for port in service.get("ports", ()):
        assert port.startswith(("127.0.0.1:", "${DRAGOMAN_HOST:-127.0.0.1}:"))
    sources = [volume.split(":")[0] for volume in service.get("volumes", ()) if isinstance(volume, str)]
    assert [source for source in sources if source.startswith(".") and not (ROOT / source).exists()] == []
    if name not in OURS:
        assert len(service["image"].rpartition(":")[2].removeprefix("v").split(".")) == 3


def test_the_cpu_variant_is_the_default_and_the_others_are_asked_for() -> None:
    profiles = {name: service.get("profiles") for name, service in SERVICES.items()}
    assert profiles == {
        "dragoman": None,
        "dragoman-gpu": ["gpu"],
        "prometheus": None,
        "grafana": None,
        "load": ["load"],
    }


def test_the_gpu_variant_differs_only_in_device_image_name_and_limits() -> None:
    cpu, gpu = (SERVICES[name] for name in VARIANTS)
    differing = {key for key in cpu.keys() | gpu.keys() if cpu.get(key) != gpu.get(key)}
    limits = {"mem_limit", "pids_limit", "tmpfs", "healthcheck", "environment"}
    assert differing == {"image", "build", "profiles", "networks", "deploy"} | limits
    assert gpu["environment"] == cpu["environment"] | {"OMP_NUM_THREADS": "1"}
    assert gpu["healthcheck"] == cpu["healthcheck"] | {"start_period": "300s"}
    devices = gpu["deploy"]["resources"]["reservations"]["devices"]
    assert [device["capabilities"] for device in devices] == [["gpu"]]


def test_the_container_outlives_the_draining_of_its_requests() -> None:
    from app.settings import Settings

    grace = float(SERVICES["dragoman"]["stop_grace_period"].removesuffix("s"))
    assert grace > Settings.model_fields["drain_seconds"].default


def test_the_load_takes_the_settings_of_make_load() -> None:
    from benchmarks.load.__main__ import main

    variables = {option.envvar for option in main.params}
    given = set(SERVICES["load"]["environment"])
    assert given <= variables
    # Where results go is the image's business.
    assert variables - given == {"LOAD_OUTPUT"}
