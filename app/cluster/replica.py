"""A replica: the whole service as a Ray actor, which answers the requests that fronts send to it."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Final

from ray import serve
from ray.exceptions import RayError
from starlette.types import Message, Scope

from app.backend import Backend
from app.cluster.autoscaling import QUEUED_TOKENS
from app.cluster.messages import answer_messages
from app.cluster.ray_replicas import board
from app.lifecycle.engine_backend import EngineBackend
from app.main import create_app
from app.settings import Settings
from app.telemetry.logs import set_up_logs

_PUBLISH_SECONDS: Final = 5.0

logger = logging.getLogger(__name__)


class Replica:
    """One service in an actor of Ray Serve; it exists as soon as its models are loaded.

    Args:
        settings: Settings of the service by their names in lower case; the others come from the environment.
        backend: Makes what decodes.

    Raises:
        TranslationError: If a model cannot be loaded; Ray Serve then keeps the replicas that it has.
    """

    async def __init__(  # type: ignore[misc]
        self, settings: Mapping[str, str], backend: Callable[[Settings], Backend] = EngineBackend
    ) -> None:
        self._settings = Settings(**settings)  # type: ignore[arg-type]
        set_up_logs(self._settings.log_level)
        self._app = create_app(self._settings, backend(self._settings))
        self._context = self._app.state.context
        self._lifespan = self._app.router.lifespan_context(self._app)
        await self._lifespan.__aenter__()
        self._publishing = asyncio.create_task(self._publish(serve.get_replica_context().replica_tag))

    async def _publish(self, replica: str) -> None:
        """Publish the metrics under the replica's name, again and again, until the task is cancelled."""
        while True:
            try:
                await board().publish.remote(replica, self._context.metrics.exposition().decode())
            except RayError:
                logger.warning("the metrics of this replica could not be published", exc_info=True)
            await asyncio.sleep(_PUBLISH_SECONDS)

    async def respond(self, scope: Scope, body: bytes) -> AsyncGenerator[Message, None]:
        """Answer one request; yields the messages of its answer."""
        if model_key := serve.get_multiplexed_model_id():
            await self._hold(model_key)
        async with aclosing(answer_messages(self._app, scope, body)) as messages:
            async for message in messages:
                yield message

    @serve.multiplexed(max_num_models_per_replica=-1)
    async def _hold(self, model_key: str) -> str:
        """Tell Ray that this replica has the models of a key, so that later requests of the key come here."""
        return model_key

    def record_autoscaling_stats(self) -> dict[str, float]:
        """Returns what the autoscaling policy reads: source tokens in the queue, times the beam size."""
        return {QUEUED_TOKENS: self._context.metrics.queued_tokens}

    async def check_health(self) -> None:
        """Raise if an engine has work and makes no step; Ray then replaces the replica."""
        self._context.watchdog.require_progress()

    async def __del__(self) -> None:
        """Free the models; Ray Serve waits for this after the last request of a replica that it ends."""
        self._publishing.cancel()
        await self._lifespan.__aexit__(None, None, None)


def application(settings: Mapping[str, str | int | float]) -> serve.Application:
    """Returns the application of `deploy/ray/serve.yaml`, which says how many replicas there are.

    Args:
        settings: Settings of the service by their names in lower case.
    """
    texts = {name: str(value) for name, value in settings.items()}
    return serve.deployment(Replica, name="Replica").bind(texts)
