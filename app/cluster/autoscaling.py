"""The autoscaling policy of the replicas: tokens that wait say more about the work than requests do."""

import math
from typing import Any, Final

from ray.serve.config import AutoscalingContext

QUEUED_TOKENS: Final = "queued_tokens"
"""The name under which a replica reports the source tokens in its queue, times the beam size."""


class QueuedTokensPolicy:
    """Asks for as many replicas as the tokens in their queues need, and the requests in progress keep busy.

    Args:
        tokens_per_replica: Tokens in all queues for which one replica is enough.
    """

    def __init__(self, tokens_per_replica: int = 4096) -> None:
        self._tokens_per_replica = tokens_per_replica

    def __call__(self, context: AutoscalingContext) -> tuple[int, dict[str, Any]]:
        """Returns the number of replicas, and no state; Ray Serve applies its bounds and delays."""
        reported = (context.aggregated_metrics or {}).get(QUEUED_TOKENS, {})
        by_tokens = math.ceil(sum(reported.values()) / self._tokens_per_replica)
        by_requests = math.ceil(context.total_num_requests / context.config.target_ongoing_requests)
        # A queue asks for more replicas; without one, the requests in progress say how many may go.
        wanted = max(by_tokens, min(by_requests, context.current_num_replicas))
        bounded = min(wanted, context.capacity_adjusted_max_replicas)
        return max(bounded, context.capacity_adjusted_min_replicas), {}
