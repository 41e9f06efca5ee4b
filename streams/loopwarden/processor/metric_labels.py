"""Label values: what is known from the start, and how many agents and tools get one of their own."""

from __future__ import annotations

from collections.abc import Iterable

from loopwarden.detection.documented.detectors import (
    circuit_breaker,
    generic_repeat,
    known_poll,
    ping_pong,
    unknown_tool,
)
from loopwarden.detection.documented.guard import DETECTOR as GUARD
from loopwarden.detection.families import PREFIX as FAMILY_PREFIX
from loopwarden.detection.fold import IGNORED_DETECTOR
from loopwarden.detection.partition import DeadLetter
from loopwarden.detection.progress.judging import GROUPS
from loopwarden_schemas.configuration import Configuration
from loopwarden_schemas.fingerprint import stored_name

__all__ = [
    "AGENTS",
    "DOCUMENTED_RULES",
    "NONE",
    "OTHER",
    "OUTCOMES",
    "PROGRESS_RULES",
    "REJECTIONS",
    "TOOLS",
    "Allotment",
    "configured_tools",
    "rejection",
]

AGENTS = 50
"""Agents with a label value of their own, for the worker's life."""
TOOLS = 200
"""Tools with a label value of their own, for the worker's life."""
OTHER = "other"
"""All beyond those."""
NONE = "none"
"""Where there is none: an event without an agent, a verdict without a rule."""

OUTCOMES = ("success", "failure", "aborted", "cancelled", "expired", OTHER, NONE)
"""How a run ended: the contract's words, ``expired``, a runner's own word, nothing said."""

DOCUMENTED_RULES: tuple[tuple[str, str, str], ...] = (
    *(
        (rule, level, action)
        for rule in (generic_repeat.DETECTOR, known_poll.DETECTOR, ping_pong.DETECTOR)
        for level, action in (("warning", "warn"), ("critical", "block"))
    ),
    (unknown_tool.DETECTOR, "critical", "block"),
    (circuit_breaker.DETECTOR, "critical", "block"),
    (GUARD, "critical", "abort"),
    (IGNORED_DETECTOR, "critical", "abort"),
)
"""Rule, level and action of everything that profile ``documented`` says."""
PROGRESS_RULES: tuple[tuple[str, str, str], ...] = (
    *(
        (prefix + rule, level, action)
        for prefix in ("", FAMILY_PREFIX)
        for rule in GROUPS
        if rule != "compaction_churn"
        for level, action in (("warning", "warn"), ("critical", "block"))
    ),
    *((prefix + "refused", "critical", action) for prefix in ("", FAMILY_PREFIX) for action in ("block", "abort")),
    ("compaction_churn", "warning", "warn"),
    *((rule, "critical", "abort") for rule in ("compaction_loop", "compaction_no_news", "compaction_idle")),
    (IGNORED_DETECTOR, "critical", "abort"),
)
"""The same of profile ``progress``."""

_FIELDS = frozenset(
    [
        "message", "key", "type", "fold", "run_id", "event_id", "agent_id", "ts", "seq", "parent_run_id", "root_run_id",
        "session_id", "batch_id", "usage", "publisher", "tool", "call_id", "args", "facts", "result", "error", "vetoed",
        "want_verdict", "retry", "outcome", "verdict_id",
    ]
)  # fmt: skip
_REASONS = (
    ("is empty", "empty"),
    ("is not the root run's", "wrong_key"),
    ("is not valid JSON", "not_json"),
    ("is nested too deeply", "too_deep"),
    ("is blank", "blank"),
    ("begins with NUL", "reserved"),
    ("is longer than", "too_long"),
    ("Object missing required field", "missing"),
    ("Expected `str` of length", "too_long"),
    ("Expected `int` ", "out_of_range"),
    ("Expected", "wrong_type"),
    ("Integer value out of range", "out_of_range"),
    ("Number out of range", "out_of_range"),
    ("Invalid value", "invalid_value"),
    ("Invalid enum value", "invalid_value"),
    ("failed with", "fault"),
)
REJECTIONS: tuple[tuple[str, str], ...] = (
    ("type", "unknown_type"),
    ("message", "empty"),
    ("message", "not_json"),
    ("message", "wrong_type"),
    ("key", "wrong_key"),
    ("run_id", "missing"),
    ("run_id", "blank"),
    ("run_id", "wrong_type"),
    ("run_id", "too_long"),
    ("tool", "missing"),
    ("tool", "wrong_type"),
    ("fold", "fault"),
)
"""Field and reason of the common rejections, there from the start."""


def rejection(letter: DeadLetter) -> tuple[str, str]:
    """Field and kind of fault of a dead letter; both from short lists, whatever a sender makes up."""
    if letter.unknown_type:
        return "type", "unknown_type"
    reason = next((word for start, word in _REASONS if letter.reason.startswith(start)), OTHER)
    field = letter.field.split(".")[0].split("[")[0]
    if reason == "missing":
        field = letter.reason.split("`")[1]
    return (field if field in _FIELDS else OTHER), reason


class Allotment:
    """Gives out label values until they are all taken, first come first served; what has one keeps it.

    Args:
        limit: How many there are, ``other`` and ``none`` not counted.
        first: Who gets one before anybody came.
    """

    def __init__(self, limit: int, first: Iterable[str] = ()) -> None:
        self._limit = limit
        self._taken: dict[str, str] = {}
        self.values: set[str] = {OTHER, NONE}
        for name in first:
            self.value(name)

    def value(self, name: str) -> str:
        """The label value of an agent or a tool."""
        if not name:
            return NONE
        taken = self._taken.get(name)
        if taken is None:
            if len(self._taken) >= self._limit:
                return OTHER
            # A lone surrogate is legal in JSON, and would fail every scrape.
            taken = stored_name(name).encode("utf-8", "backslashreplace").decode()
            self._taken[name] = taken
            self.values.add(taken)
        return taken


def configured_tools(configuration: Configuration) -> list[str]:
    """Tools that the configuration names, sorted."""
    agents = [None, *configuration.agent_ids]
    return sorted({tool for agent in agents for tool, _, _ in configuration.settings_for(agent).tools})
