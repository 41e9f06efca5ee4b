"""Facts: what a call and its result come to, without their content.

The fold never sees arguments or results. Runner library or worker reduce them, with this code, to fingerprints and
flags; an event may carry the facts instead of the content (design: facts, not content).
"""

from __future__ import annotations

from loopwarden_schemas.facts.reduction import reduce_content, reduce_event, reduce_outcome
from loopwarden_schemas.facts.structure import FINGERPRINT_PATTERN, Facts, signature

__all__ = ["FINGERPRINT_PATTERN", "Facts", "reduce_content", "reduce_event", "reduce_outcome", "signature"]
