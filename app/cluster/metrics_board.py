"""The metrics of all replicas, in one actor where fronts find them."""

import asyncio
import logging
import time
from typing import Final

import ray

from app.telemetry.metrics import Metrics

_PUBLISH_SECONDS: Final = 5.0
# A replica that has been silent for longer has ended.
_KEPT_SECONDS: Final = 30.0

logger = logging.getLogger(__name__)


@ray.remote(num_cpus=0)
class MetricsBoard:
    """An actor with the newest exposition of each replica."""

    def __init__(self) -> None:
        self._expositions: dict[str, tuple[float, str]] = {}

    def publish(self, replica: str, exposition: str) -> None:
        """Replace the exposition of a replica."""
        self._expositions[replica] = time.monotonic(), exposition

    def expositions(self) -> dict[str, str]:
        """Returns the expositions of the replicas that have published recently."""
        recent = time.monotonic() - _KEPT_SECONDS
        self._expositions = {name: each for name, each in self._expositions.items() if each[0] > recent}
        return {name: exposition for name, (_, exposition) in self._expositions.items()}


def board() -> "ray.actor.ActorHandle":
    """Returns the cluster's board, which is made if there is none."""
    return MetricsBoard.options(  # type: ignore[attr-defined]
        name="dragoman-metrics",
        namespace="dragoman",
        lifetime="detached",
        get_if_exists=True,
        max_restarts=-1,
    ).remote()


async def publish(metrics: Metrics, replica: str) -> None:
    """Publish the metrics of this replica, again and again, until the task is cancelled."""
    while True:
        try:
            await board().publish.remote(replica, metrics.exposition().decode())
        except ray.exceptions.RayError:
            logger.warning("the metrics of this replica could not be published", exc_info=True)
        await asyncio.sleep(_PUBLISH_SECONDS)
