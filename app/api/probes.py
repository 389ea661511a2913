"""① ⑨ The paths that machines ask: is it alive, is it ready, how is it doing."""

from fastapi import APIRouter, Response

from app.api import schemas
from app.api.dependencies import ContextOf
from app.api.documentation import errors

router = APIRouter(tags=["Operation"])


@router.get("/livez", summary="Is the process alive?", responses=errors(503))
async def livez(context: ContextOf) -> schemas.Status:
    """Restart the process when this is not answered, or with 503: an engine has work and makes no step."""
    context.watchdog.require_progress()
    return schemas.Status()


@router.get("/readyz", summary="Is it ready for traffic?", responses=errors(503))
async def readyz(context: ContextOf) -> schemas.Status:
    """503 while the model loads, while an engine is stuck, and from the moment the process is told to end."""
    context.lifecycle.require_ready()
    context.watchdog.require_progress()
    return schemas.Status()


@router.get("/health", summary="Is it ready? (LibreTranslate's name)", responses=errors(503))
async def health(context: ContextOf) -> schemas.Status:
    """The same as /readyz."""
    return await readyz(context)


@router.get(
    "/metrics",
    summary="Prometheus metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(context: ContextOf) -> Response:
    """All metrics in Prometheus' text format."""
    return Response(context.metrics.exposition(), media_type="text/plain; version=0.0.4; charset=utf-8")
