"""The Kubernetes manifests agree with each other, with the image and with the service."""

import copy
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from app.http.routes import PROBES
from app.settings import Settings
from app.telemetry.metrics import Metrics
from model.cli import main

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
OVERLAYS = ("base", "overlays/cpu", "overlays/gpu")
Manifest = dict[str, Any]


def read(path: Path) -> Manifest:
    loaded: Manifest = yaml.safe_load(path.read_text())
    return loaded


@cache
def built(name: str) -> list[Manifest]:
    """Returns the manifests of an overlay: resources, then the patches of its components, then images."""
    folder = FOLDER / name
    wanted = read(folder / "kustomization.yaml")
    found = [
        each
        for resource in wanted["resources"]
        for each in (
            copy.deepcopy(built(f"{name}/{resource}"))
            if (folder / resource).is_dir()
            else [read(folder / resource)]
        )
    ]
    for component in wanted.get("components", ()):
        part = read(folder / component / "kustomization.yaml")
        found += [read(folder / component / resource) for resource in part.get("resources", ())]
        for patch in part["patches"]:
            for operation in yaml.safe_load(patch["patch"]):
                apply(one(found, **patch["target"]), **operation)
    for image in wanted.get("images", ()):
        for container in containers(one(found, "Deployment")):
            container["image"] = f"{image['newName']}:{image['newTag']}"
    return found


def apply(place: Any, *, op: str, path: str, value: object = None) -> None:
    """Applies one operation of RFC 6902."""
    *parents, last = path.strip("/").split("/")
    for name in parents:
        place = place[int(name) if isinstance(place, list) else name]
    key: Any = int(last) if isinstance(place, list) and last != "-" else last
    if op == "test":
        assert place[key] == value
    elif op == "remove":
        del place[key]
    elif key == "-":
        place.append(value)
    else:
        assert op == "add" or place[key] is not None
        place[key] = value


def one(manifests: list[Manifest], kind: str, name: str = "dragoman") -> Manifest:
    (found,) = (each for each in manifests if (each["kind"], each["metadata"]["name"]) == (kind, name))
    return found


def containers(deployment: Manifest) -> list[Manifest]:
    pod = deployment["spec"]["template"]["spec"]
    return [*pod["containers"], *pod.get("initContainers", ())]


@pytest.mark.parametrize("name", OVERLAYS)
def test_kustomize_builds_the_same(name: str) -> None:
    if shutil.which("kustomize") is None:
        pytest.skip("kustomize is not installed")
    run = subprocess.run(["kustomize", "build", FOLDER / name], check=True, capture_output=True, text=True)
    theirs = list(yaml.safe_load_all(run.stdout))
    for each in [*theirs, *(ours := copy.deepcopy(built(name)))]:
        # The label that is added to everything.
        each["metadata"].get("labels", {}).pop("app.kubernetes.io/name", None)
        each["metadata"] = {key: value for key, value in each["metadata"].items() if value}
    order = lambda each: (each["kind"], each["metadata"]["name"])  # noqa: E731
    assert sorted(theirs, key=order) == sorted(ours, key=order)


@pytest.mark.parametrize("name", OVERLAYS)
def test_every_manifest_has_the_schema_of_its_kind(name: str) -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    checked = [each for each in built(name) if each["kind"] != "ScaledObject"]
    for each in checked:
        validate.validate(each, "1.30", strict=True)
    assert len(checked) >= 4


@pytest.mark.parametrize("name", OVERLAYS)
def test_every_selector_finds_the_pods(name: str) -> None:
    labels = one(built(name), "Deployment")["spec"]["template"]["metadata"]["labels"]
    for each in built(name):
        spec = each["spec"]
        selector = spec.get("selector") or spec.get("podSelector")
        if selector is not None:
            assert selector.get("matchLabels", selector).items() <= labels.items()
        if "scaleTargetRef" in spec:
            assert spec["scaleTargetRef"]["name"] == "dragoman"
            assert "replicas" not in one(built(name), "Deployment")["spec"]


@pytest.mark.parametrize("name", OVERLAYS)
def test_every_probe_port_volume_and_setting_exists(name: str) -> None:
    deployment = one(built(name), "Deployment")
    service, pod = (
        deployment["spec"]["template"]["spec"]["containers"][0],
        deployment["spec"]["template"]["spec"],
    )
    ports = {port["name"] for port in service["ports"]}
    probes = [service[f"{kind}Probe"]["httpGet"] for kind in ("startup", "readiness", "liveness")]
    assert {probe["path"] for probe in probes} <= {route.path for route in PROBES}
    assert {probe["port"] for probe in probes} <= ports
    assert {port["targetPort"] for port in one(built(name), "Service")["spec"]["ports"]} <= ports
    policy = one(built(name), "NetworkPolicy")["spec"]
    assert {port["port"] for rule in policy["ingress"] for port in rule["ports"]} <= ports
    settings = {f"DRAGOMAN_{field.upper()}" for field in Settings.model_fields}
    assert {each["name"] for each in service["env"]} <= settings | {"OMP_NUM_THREADS"}
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for each in containers(deployment) for mount in each["volumeMounts"]} <= volumes
    claims = {each["metadata"]["name"] for each in built(name) if each["kind"] == "PersistentVolumeClaim"}
    used = (volume.get("persistentVolumeClaim", {}).get("claimName") for volume in pod["volumes"])
    assert set(filter(None, used)) == claims


def test_liveness_does_not_depend_on_readiness() -> None:
    """A pod that drains or loads is not ready, and must not be killed for it."""
    (service,) = containers(one(built("base"), "Deployment"))
    assert service["livenessProbe"]["httpGet"]["path"] == "/livez"
    assert service["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_no_variable_of_the_cluster_is_taken_for_a_setting() -> None:
    assert one(built("base"), "Deployment")["spec"]["template"]["spec"]["enableServiceLinks"] is False


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_pod_is_confined(name: str) -> None:
    deployment = one(built(name), "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    assert one(built(name), "NetworkPolicy")["spec"].get("egress", []) == []
    for container in containers(deployment):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert "memory" in container["resources"]["limits"]


def test_the_pod_outlives_the_draining_of_its_requests() -> None:
    pod = one(built("base"), "Deployment")["spec"]["template"]["spec"]
    (service,) = pod["containers"]
    drain = next(float(e["value"]) for e in service["env"] if e["name"] == "DRAGOMAN_DRAIN_SECONDS")
    assert pod["terminationGracePeriodSeconds"] > drain + service["lifecycle"]["preStop"]["sleep"]["seconds"]


def test_autoscalers_follow_metrics_that_exist() -> None:
    exposition = Metrics().exposition().decode()
    exist = {family.name for family in text_string_to_metric_families(exposition)}
    metrics = one(built("overlays/cpu"), "HorizontalPodAutoscaler")["spec"]["metrics"]
    targets = {each["pods"]["metric"]["name"]: each["pods"]["target"]["averageValue"] for each in metrics}
    assert targets.keys() <= exist
    (rule,) = read(FOLDER / "hpa" / "adapter-values.yaml")["rules"]["custom"]
    pattern = re.search(r'__name__=~"([^"]+)"', rule["seriesQuery"])
    assert pattern is not None
    assert {name for name in exist if re.search(pattern[1], name)} == targets.keys()
    triggers = one(built("overlays/gpu"), "ScaledObject")["spec"]["triggers"]
    asked = [(re.search(r"dragoman_\w+", each["metadata"]["query"]), each) for each in triggers]
    assert {found[0]: each["metadata"]["threshold"] for found, each in asked if found} == targets


def test_the_model_is_imported_by_a_command_that_exists() -> None:
    (importing,) = (
        each for each in containers(one(built("overlays/gpu"), "Deployment")) if each["name"] == "import"
    )
    command = re.search(r"dragoman (\w+) \S+ (--\w+)", importing["args"][0])
    assert command is not None
    found = main.get_command(click.Context(main), command[1])
    assert found is not None
    assert command[2] in {option for each in found.params for option in each.opts}
    variables = set(re.findall(r"\$(\w+)", importing["args"][0]))
    assert variables == {each["name"] for each in importing["env"]}
