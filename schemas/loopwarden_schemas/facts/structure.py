"""The facts of one call and its result, as they stand on the wire."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Annotated

from msgspec import Meta, Struct, field

__all__ = ["FINGERPRINT_PATTERN", "Facts", "Fingerprint", "signature"]

FINGERPRINT_PATTERN = "^[0-9a-f]{16,64}$"
"""Lower-case hex; the first 16 digits (64 bits) count."""

Fingerprint = Annotated[str, Meta(pattern=FINGERPRINT_PATTERN)]


class Facts(Struct, kw_only=True, omit_defaults=True, frozen=True):
    """What a call and its result come to. Absent and null are the same everywhere.

    Attributes:
        args_fp: Fingerprint of the arguments (rule 2).
        outcome_fp: Fingerprint of the outcome (rule 3); absent where there is no outcome.
        poll: The call only asks how things are, by the documented list (rule 5).
        unknown_tool: Name that an "unknown tool" error names, lower-case (rule 3.1).
        own_veto: The result is the detector's own refusal (rule 3.4).
        call: Fingerprint of tool and arguments, less what changes by itself (progress 3.1).
        target: The same with prose left out (progress 3.2).
        kind: ``read``, ``effect``, ``send`` or ``other`` (progress 3.3).
        wait: The call waits or polls (progress 3.4).
        spawn: The call starts another agent (progress 3.3).
        outcome: Fingerprint of the masked outcome (progress 3.5, 3.6).
        failed: The call failed (progress 3.6).
        class_: Fingerprint of the class of failure; ``class`` on the wire.
        transient: The failure is of a kind that passes.
        missing: The tool does not exist.
    """

    args_fp: Fingerprint | None = None
    outcome_fp: Fingerprint | None = None
    poll: bool = False
    unknown_tool: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    own_veto: bool = False
    call: Fingerprint | None = None
    target: Fingerprint | None = None
    kind: str | None = None
    wait: bool = False
    spawn: bool = False
    outcome: Fingerprint | None = None
    failed: bool = False
    class_: Fingerprint | None = field(default=None, name="class")
    transient: bool = False
    missing: bool = False


@lru_cache(maxsize=8192)  # a call and its result ask for the same one
def signature(tool: str, args_fp: str) -> bytes:
    """Signature of a call under the documented rules: eight bytes over tool name and argument fingerprint (rule 2)."""
    return blake2b(f"{tool}:{args_fp[:16]}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
