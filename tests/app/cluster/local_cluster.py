"""A local Ray cluster of three nodes with `deploy/ray/serve.yaml`, and a front, whose replicas are killed.

The script sends as many requests as its argument says, and tells how many were answered rightly. One replica
at a time is killed, as soon as all run again.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_memory_monitor_refresh_ms": "0"}

import httpx
import ray
import yaml
from ray import serve
from ray.cluster_utils import Cluster
from ray.serve._private.api import serve_start
from ray.serve.schema import ServeDeploySchema

ROOT = Path(__file__).parents[3]
URL = "http://127.0.0.1:8123"
TEXTS = [line.split("\t")[0] for line in (ROOT / "examples/phrases-valid.en-fr.tsv").read_text().splitlines()]
_CLIENTS = 16


def start_cluster() -> Cluster:
    node = {"num_cpus": 2, "object_store_memory": 100_000_000}
    cluster = Cluster(initialize_head=True, head_node_args=node | {"include_dashboard": False})
    for _ in range(2):
        cluster.add_node(**node)
    ray.init(address=cluster.address, namespace="serve", log_to_driver=False, logging_level="ERROR")
    return cluster


def deploy() -> None:
    configuration = yaml.safe_load((ROOT / "deploy/ray/serve.yaml").read_text())
    replicas = configuration["applications"][0]["deployments"][0]
    del replicas["autoscaling_config"]
    replicas |= {"num_replicas": 2, "health_check_period_s": 1}
    client = serve_start(http_options={"location": None})
    client.deploy_apps(ServeDeploySchema.model_validate(configuration))
    wait_for(lambda: all(app.status == "RUNNING" for app in serve.status().applications.values()))


def wait_for(condition: object) -> None:
    end = time.monotonic() + 240
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(serve.status())
        time.sleep(0.5)


def is_ready() -> bool:
    try:
        return httpx.get(f"{URL}/readyz").status_code == 200
    except httpx.HTTPError:
        return False


def kill_a_replica(number: int) -> bool:
    """Kill one of the replicas if all run."""
    states = serve.status().applications["translation"].deployments["Replica"].replica_states
    processes = subprocess.run(["ps", "axo", "pid,args"], capture_output=True, text=True, check=True).stdout
    found = [line.split()[0] for line in processes.splitlines() if "ServeReplica:translation" in line]
    if states.get("RUNNING", 0) < 2 or not found:
        return False
    os.kill(int(found[number % len(found)]), signal.SIGKILL)
    return True


async def load(total: int) -> tuple[int, int]:
    """Returns how many requests were answered rightly, and how many replicas were killed meanwhile."""
    right = kills = 0
    numbers = iter(range(total))
    limits = httpx.Limits(max_connections=_CLIENTS)
    async with httpx.AsyncClient(timeout=120, limits=limits) as client:

        async def translation(text: str) -> str:
            fields = {"q": text, "source": "en", "target": "fr"}
            answer = await client.post(f"{URL}/translate", json=fields)
            return str(answer.json().get("translatedText"))

        expected = {text: await translation(text) for text in TEXTS}

        async def user() -> None:
            nonlocal right
            for number in numbers:
                text = TEXTS[number % len(TEXTS)]
                is_right = await translation(text) == expected[text]
                right += is_right

        async def killer() -> None:
            nonlocal kills
            while True:
                kills += await asyncio.to_thread(kill_a_replica, kills)
                await asyncio.sleep(1)

        killing = asyncio.create_task(killer())
        await asyncio.gather(*(user() for _ in range(_CLIENTS)))
        killing.cancel()
    return right, kills


def main(total: int) -> None:
    os.chdir(ROOT)
    cluster = start_cluster()
    deploy()
    program = Path(sys.executable).with_name("dragoman")
    command = [program, "serve", "--ray-address", cluster.address, "--port", "8123"]
    front = subprocess.Popen(command)
    try:
        wait_for(is_ready)
        right, kills = asyncio.run(load(total))
    finally:
        front.terminate()
        status = front.wait(60)
    result = f"{right} of {total} answered rightly, {kills} replicas killed, the front ended with {status}"
    sys.stdout.write(result + "\n")
    sys.exit(right != total or kills < 1 or status != 0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
