"""Proof runs on a Ray cluster of three nodes on this machine, while replicas, workers and drivers are killed.

python -m benchmarks.cluster requests     # every request is answered once and rightly
python -m benchmarks.cluster corpus       # the output equals one machine's byte for byte
python -m benchmarks.cluster replicas     # two replicas do at least 1.8 times the work of one

They need the extra `ray`, root and `unshare`: Ray takes 127.0.0.1 for all its parts only where there is no
other network, so each run has a network and a process namespace of its own.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from benchmarks.harness.options import counted
from benchmarks.load.generator import Client, Load, Seen, run
from benchmarks.load.target import wait_until_ready
from benchmarks.services.null_backend import NullBackend

if TYPE_CHECKING:
    from app.settings import Settings

ROOT = Path(__file__).parents[1]
_PROGRAM = str(Path(sys.executable).with_name("dragoman"))
_PHRASES = ROOT / "examples" / "phrases-valid.en-fr.tsv"
_ISOLATED = "CLUSTER_IS_ISOLATED"
_NODES, _CORES, _PORT, _CLIENT_PORT, _CLIENTS = 3, 2, 8123, 10001, 16
_WAIT_SECONDS = 240
_SLEEP_SECONDS = 0.05
_LEAST_RATIO = 1.8
_FILES = 8


@click.group()
@click.pass_context
def main(context: click.Context) -> None:
    """Run the command in namespaces of its own."""
    if "--help" in sys.argv or _ISOLATED in os.environ:
        return
    inside = 'ip link set lo up && exec "$@"'
    command = [sys.executable, "-m", "benchmarks.cluster", *sys.argv[1:]]
    namespaces = ["--net", "--pid", "--mount-proc"]
    isolated = ["unshare", *namespaces, "--fork", "--kill-child", "sh", "-c", inside, "sh"]
    # The path of a socket has at most 107 characters, and Ray's own part has 80.
    with TemporaryDirectory(prefix="ray", dir="/tmp") as folder:
        own = {
            _ISOLATED: "1",
            "RAY_TMPDIR": folder,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_memory_monitor_refresh_ms": "0",
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
        }
        context.exit(subprocess.run([*isolated, *command], env={**os.environ, **own}, cwd=ROOT).returncode)


@main.command()
@counted("count", 10_000, "Requests.")
def requests(count: int) -> None:
    """Kill one replica after the other, as soon as all run again, while requests are sent."""
    with _cluster() as address, _front(address, _configuration(2)):
        expected = run(_load()).answers
        seen, kills = _while_killing(_load(count))
    right = sum(
        each.status == 200 and seen.answers[each.which] == expected[each.which] for each in seen.samples
    )
    slowest = max(each.seconds for each in seen.samples)
    click.echo(
        f"{right} of {count} answered rightly in {seen.seconds:.0f} s, "
        f"{kills} replicas killed, slowest answer {slowest:.1f} s"
    )
    sys.exit(not (right == count == len(seen.samples) and kills))


@main.command()
@counted("lines", 200_000, "Lines of the corpus, in eight files.")
def corpus(lines: int) -> None:
    """Kill two workers and the driver, continue through a Ray client, and compare with one machine."""
    with TemporaryDirectory() as name:
        source, one, many = (Path(name, each) for each in ("source", "one", "many"))
        _write_corpus(source, lines)
        command = [_PROGRAM, "translate", "-s", "en", "-t", "fr", "--checkpoint", "checkpoints"]
        command += [str(source), "-o"]
        began = time.monotonic()
        subprocess.run([*command, str(one)], check=True)
        click.echo(f"one machine: {time.monotonic() - began:.0f} s")
        shards = sum(-(-len((source / file).read_text().splitlines()) // 1024) for file in os.listdir(source))
        with _cluster() as address:
            began = time.monotonic()
            driver = subprocess.Popen([*command, str(many), "--on", address])
            for share in (0.1, 0.3):
                _wait_for(lambda share=share: _parts(many) >= share * shards)  # type: ignore[misc]
                os.kill(_processes("MapWorker")[0], signal.SIGKILL)
            _wait_for(lambda: _parts(many) >= 0.6 * shards)
            driver.kill()
            driver.wait()
            kept = _parts(many)
            # Continued from outside the cluster.
            subprocess.run([*command, str(many), "--on", f"ray://127.0.0.1:{_CLIENT_PORT}"], check=True)
            click.echo(f"three nodes: {time.monotonic() - began:.0f} s, {kept} of {shards} parts kept")
        files = sorted(os.listdir(source))
        equal = sum((one / file).read_bytes() == (many / file).read_bytes() for file in files)
    click.echo(f"{equal} of {len(files)} files equal, {lines} lines, 2 workers and the driver killed")
    sys.exit(equal != len(files))


@main.command()
@counted("count", 400, "Requests for each replica.")
def replicas(count: int) -> None:
    """Compare two replicas with one, where a sentence takes 50 ms of sleep."""
    rates = []
    with _cluster() as address:
        for number in (1, 2):
            configuration = _configuration(number)
            for application in configuration["applications"]:
                application["import_path"] = "benchmarks.cluster:sleeping_application"
            with _front(address, configuration):
                run(_load())
                seen = run(_load(number * count))
            assert all(each.status == 200 for each in seen.samples)
            rates.append(len(seen.samples) / seen.seconds)
    one, two = rates
    click.echo(f"one replica {one:.1f} requests/s, two {two:.1f}: {two / one:.2f} times as many")
    sys.exit(two < _LEAST_RATIO * one)


def sleeping_application(settings: Mapping[str, object]) -> object:
    """Returns the application of `app.cluster` with an engine that sleeps and answers at once."""
    from ray import serve

    from app.cluster.replica import Replica

    texts = {name: str(value) for name, value in settings.items()}
    return serve.deployment(Replica, name="Replica").bind(texts, _sleeping_backend)


def _sleeping_backend(settings: "Settings") -> NullBackend:
    from model.checkpoint.manifest import served_folders

    return NullBackend(served_folders(settings.checkpoint)[0], _SLEEP_SECONDS)


def _load(most: int | None = None) -> Load:
    """Returns so many requests for phrases, or each phrase once."""
    texts = [line.split("\t")[0] for line in _PHRASES.read_text().splitlines()]
    bodies = [json.dumps({"q": text, "source": "en", "target": "fr"}) for text in texts]
    return Load(
        client=Client(port=_PORT),
        bodies=bodies,
        connections=_CLIENTS,
        most=len(bodies) if most is None else most,
    )


def _write_corpus(folder: Path, lines: int) -> None:
    things = ("cats", "dogs", "houses", "trains", "books", "apples", "stations")
    folder.mkdir()
    for file in range(_FILES):
        numbers = range(file, lines, _FILES)
        text = "".join(f"{number} {things[number % len(things)]}.\n" for number in numbers)
        (folder / f"{file}.txt").write_text(text)


def _parts(output: Path) -> int:
    return sum(1 for _ in output.glob(".parts/*/*.json"))


@contextmanager
def _cluster() -> Iterator[str]:
    """Runs three nodes; yields the address of their cluster."""
    from ray.cluster_utils import Cluster

    node = {"num_cpus": _CORES, "object_store_memory": 100_000_000}
    head = {"include_dashboard": False, "ray_client_server_port": _CLIENT_PORT}
    cluster = Cluster(initialize_head=True, head_node_args=node | head)
    for _ in range(_NODES - 1):
        cluster.add_node(**node)
    try:
        yield cluster.address
    finally:
        cluster.shutdown()


def _configuration(number: int) -> dict[str, Any]:
    """Returns `deploy/ray/serve.yaml` with so many replicas."""
    import yaml

    configuration: dict[str, Any] = yaml.safe_load((ROOT / "deploy/ray/serve.yaml").read_text())
    deployment = configuration["applications"][0]["deployments"][0]
    del deployment["autoscaling_config"]
    deployment |= {"num_replicas": number, "health_check_period_s": 1}
    return configuration


@contextmanager
def _front(address: str, configuration: dict[str, Any]) -> Iterator[None]:
    """Deploys the replicas and runs a front until the block ends; the front must end with status 0."""
    import ray
    from ray import serve
    from ray.serve._private.api import serve_start
    from ray.serve.schema import ServeDeploySchema

    ray.init(address=address, namespace="serve", log_to_driver=False, logging_level="ERROR")
    client = serve_start(http_options={"location": None})
    client.deploy_apps(ServeDeploySchema.model_validate(configuration))
    _wait_for(lambda: all(each.status == "RUNNING" for each in serve.status().applications.values()))
    front = subprocess.Popen(
        [_PROGRAM, "serve", "--ray-address", address, "--port", str(_PORT), "--log-level", "error"]
    )
    try:
        if not wait_until_ready(f"http://127.0.0.1:{_PORT}", _WAIT_SECONDS):
            raise TimeoutError
        yield
    finally:
        front.terminate()
        status = front.wait(60)
        serve.shutdown()
        ray.shutdown()
    assert status == 0, f"the front ended with {status}"


def _while_killing(load: Load) -> tuple[Seen, int]:
    """Returns what the load saw, and how many replicas were killed meanwhile."""
    kills = 0
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(run, load)
        while not asked.done():
            kills += _kill_a_replica(kills)
            time.sleep(1)
        return asked.result(), kills


def _kill_a_replica(number: int) -> bool:
    """Kills one of the replicas if all run."""
    from ray import serve

    states = serve.status().applications["translation"].deployments["Replica"].replica_states
    found = _processes("ServeReplica:translation")
    if states.get("RUNNING", 0) < 2 or not found:
        return False
    os.kill(found[number % len(found)], signal.SIGKILL)
    return True


def _processes(title: str) -> list[int]:
    """Returns the ids of processes by a part of their title."""
    listed = subprocess.run(["ps", "axo", "pid,args"], capture_output=True, text=True, check=True).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if f"ray::{title}" in line]


def _wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _WAIT_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.2)


if __name__ == "__main__":
    main()
