"""The Kubernetes manifests agree with each other, with the image and with the service."""

from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"


def manifest(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((FOLDER / name).read_text())
    return loaded


POD = manifest("deployment.yaml")["spec"]["template"]
CONTAINER = POD["spec"]["containers"][0]


def test_the_kustomization_lists_every_manifest() -> None:
    listed = set(manifest("kustomization.yaml")["resources"])
    assert listed == {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}


def test_every_selector_finds_the_pods() -> None:
    labels = POD["metadata"]["labels"].items()
    assert manifest("deployment.yaml")["spec"]["selector"]["matchLabels"].items() <= labels
    assert manifest("service.yaml")["spec"]["selector"].items() <= labels
    assert manifest("disruption.yaml")["spec"]["selector"]["matchLabels"].items() <= labels


def test_every_probe_and_port_names_the_containers_port() -> None:
    ports = {port["name"] for port in CONTAINER["ports"]}
    probes = [CONTAINER[f"{kind}Probe"]["httpGet"] for kind in ("startup", "readiness", "liveness")]
    assert {probe["port"] for probe in probes} <= ports
    assert {port["targetPort"] for port in manifest("service.yaml")["spec"]["ports"]} <= ports


def test_liveness_does_not_depend_on_readiness() -> None:
    """A pod that drains or loads is not ready, and must not be killed for it."""
    assert CONTAINER["livenessProbe"]["httpGet"]["path"] == "/livez"
    assert CONTAINER["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_no_variable_of_the_cluster_is_taken_for_a_setting() -> None:
    assert POD["spec"]["enableServiceLinks"] is False


def test_the_pod_is_confined() -> None:
    assert POD["spec"]["securityContext"]["runAsNonRoot"] is True
    assert POD["spec"]["automountServiceAccountToken"] is False
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "memory" in CONTAINER["resources"]["limits"]


def test_the_pod_outlives_the_draining_of_its_requests() -> None:
    drain = next(float(e["value"]) for e in CONTAINER["env"] if e["name"] == "DRAGOMAN_DRAIN_SECONDS")
    pause = CONTAINER["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert POD["spec"]["terminationGracePeriodSeconds"] > drain + pause
