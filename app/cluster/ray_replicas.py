"""The replicas of a Ray cluster, as a front sees them, and the metrics of all replicas in one actor."""

import logging
import time
from collections.abc import AsyncGenerator
from functools import lru_cache, partial
from typing import Final

import ray
from ray import serve
from ray.exceptions import RayError, RayTaskError
from ray.serve.exceptions import BackPressureError, RayServeException
from ray.serve.handle import DeploymentHandle
from starlette.types import Message, Scope

from app.cluster.messages import ReplicaLostError
from app.errors import OverloadedError

# A replica that has published no metrics for longer has ended.
_KEPT_SECONDS: Final = 30.0

logger = logging.getLogger(__name__)


class RayReplicas:
    """See Replicas.

    Args:
        application: Name of the Ray Serve application, which must exist.
    """

    def __init__(self, application: str) -> None:
        handle = serve.get_app_handle(application).options(stream=True, method_name="respond")
        self._for_model = lru_cache(maxsize=1024)(partial(_for_model, handle))

    async def respond(self, scope: Scope, body: bytes, model_key: str) -> AsyncGenerator[Message, None]:
        """See Replicas."""
        response = self._for_model(model_key).remote(scope, body)
        is_complete = False
        try:
            async for message in response:
                is_complete = message["type"] == "http.response.body" and not message.get("more_body")
                yield message
        except BackPressureError:
            raise OverloadedError(retry_after=1) from None
        except RayTaskError:
            # The replica is alive, and the fault is ours.
            raise
        except (RayError, RayServeException) as fault:
            logger.warning("a replica was lost", extra={"fault": type(fault).__name__})
            raise ReplicaLostError from None
        finally:
            if not is_complete:
                response.cancel()


def _for_model(handle: DeploymentHandle, model_key: str) -> DeploymentHandle:
    return handle.options(multiplexed_model_id=model_key) if model_key else handle


class RayCluster:
    """The replicas on a Ray cluster. Making one joins the cluster, which blocks.

    Args:
        address: Of the Ray cluster, such as `auto` on one of its machines.

    Raises:
        ConnectionError: If there is no cluster.
        RayServeException: If the applications of `deploy/ray/serve.yaml` do not run there.
    """

    def __init__(self, address: str) -> None:
        ray.init(address=address, namespace="dragoman", log_to_driver=False, logging_level="ERROR")
        self.translation = RayReplicas("translation")
        self.files = RayReplicas("files")

    async def expositions(self) -> dict[str, str]:
        """See Cluster."""
        try:
            expositions: dict[str, str] = await board().expositions.remote()
            return expositions
        except RayError:
            logger.warning("the metrics of the replicas could not be read", exc_info=True)
            return {}

    def leave(self) -> None:
        """See Cluster."""
        ray.shutdown()


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
