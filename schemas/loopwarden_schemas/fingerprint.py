"""Hashes that both sides must agree on, other than facts."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b, sha256

__all__ = ["id_hash", "stored_name", "verdict_id"]

NAME_BYTES = 128
"""Longer tool names are stored as a prefix and a hash (design: two tables)."""


@lru_cache(maxsize=8192)  # a call id comes twice
def id_hash(identifier: str) -> bytes:
    """Eight bytes that stand for a call id or an event id in tables and evidence.

    Args:
        identifier: The id as the runner gave it.
    """
    return blake2b(identifier.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def verdict_id(
    topic: str, partition: int, offset: int, *, detector: str, stage: str, scope: str, call_fp: str, config_version: str
) -> str:
    """Id of a verdict: 32 hex digits over its cause, rule, stage, scope, call and configuration (design: delivery 3).

    The same event judged again under the same configuration gives the same id.
    """
    text = "\x00".join((topic, str(partition), str(offset), detector, stage, scope, call_fp, config_version))
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def stored_name(tool: str) -> str:
    """A tool's name as tables and verdicts have it: of one over 128 bytes a prefix and a hash."""
    if len(tool) <= NAME_BYTES // 4:  # four bytes a character at most
        return tool
    raw = tool.encode("utf-8", "surrogatepass")
    if len(raw) <= NAME_BYTES:
        return tool
    return raw[: NAME_BYTES - 17].decode("utf-8", "ignore") + "~" + blake2b(raw, digest_size=8).hexdigest()
