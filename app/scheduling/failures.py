"""⑤ → ⑥ A sentence that failed: what its client is told, and what it counts as."""

import logging

from app.errors import OutOfMemoryError, ServiceError
from app.telemetry.metrics import FailureReason
from model.errors import DecodingError, InputError, NotFiniteError, TextTooLongError, TranslationError
from model.request import Hypothesis

logger = logging.getLogger(__name__)

Outcome = list[Hypothesis] | TranslationError | ServiceError
"""Of one sentence: its hypotheses, best first, or why it failed."""


def as_failure(fault: Exception) -> TranslationError | ServiceError:
    """What became of the one sentence that is to blame for what an engine raised."""
    if isinstance(fault, MemoryError):
        return OutOfMemoryError()
    if isinstance(fault, TextTooLongError) and fault.field == "source_ids":
        # Lengths were checked against the checkpoint's before; what is left is room for its hypotheses.
        limit_name = "MAX_STATE_BYTES, in positions of the decoder"
        return TextTooLongError("q", limit_name, fault.limit, fault.value)
    if isinstance(fault, TranslationError):
        return fault
    logger.error("decoding failed", exc_info=fault)
    return DecodingError("the sentence could not be decoded")


def failure_reason(outcome: Outcome) -> FailureReason | None:
    """What a failure counts as; None of a translation, and of what the client can mend."""
    if isinstance(outcome, (list, InputError)):
        return None
    if isinstance(outcome, NotFiniteError):
        return "non_finite"
    return "out_of_memory" if isinstance(outcome, OutOfMemoryError) else "fault"
