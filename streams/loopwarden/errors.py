"""Errors and exit codes.

LoopWardenError                 exit code 1
├── UsageError                  2   input that cannot be taken: a file, an option, a configuration
├── BrokerError                 3   the broker cannot be reached, refuses, or lacks what is needed
│   ├── TopicMismatch           3   a topic is not as it must be
│   └── EmbeddedBrokerError     3   the embedded broker did not start
├── StateError                  4   the tables do not match the log
├── CallRefusedError            -   raised into the agent by the runner library: this call must not run
└── RunAborted                  -   raised into the agent by the runner library
    └── CompactionLoopPersisted -   the documented one: the compaction did not break the loop
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "BrokerError",
    "CallRefusedError",
    "CompactionLoopPersisted",
    "EmbeddedBrokerError",
    "LoopWardenError",
    "RunAborted",
    "StateError",
    "TopicMismatch",
    "UsageError",
]


class LoopWardenError(Exception):
    """Base of all errors of this package.

    Attributes:
        exit_code: What a command exits with.
        hint: What to do about it, one line; empty where nothing helps.
    """

    exit_code = 1

    def __init__(self, message: str | None = None, *, hint: str = "") -> None:
        super().__init__(message or (type(self).__doc__ or "").strip().splitlines()[0])
        self.hint = hint


class UsageError(LoopWardenError):
    """Input that cannot be taken."""

    exit_code = 2


class BrokerError(LoopWardenError):
    """The broker cannot be reached, refuses, or lacks what is needed."""

    exit_code = 3


class TopicMismatch(BrokerError):
    """A topic is not as it must be."""


class EmbeddedBrokerError(BrokerError):
    """The embedded broker did not start."""


class StateError(LoopWardenError):
    """The tables do not match the log."""

    exit_code = 4


class CallRefusedError(LoopWardenError):
    """A verdict refused one call; the run goes on.

    Attributes:
        run_id: The run.
        call_id: The refused call.
        tool: Its tool.
        detector: The rule.
        blocked_result: What the model is given instead of a result (the documented blocked result).
    """

    def __init__(
        self, message: str, *, run_id: str, call_id: str, tool: str, detector: str, blocked_result: dict[str, Any]
    ) -> None:
        super().__init__(message)
        self.run_id = run_id
        self.call_id = call_id
        self.tool = tool
        self.detector = detector
        self.blocked_result = blocked_result


class RunAborted(LoopWardenError):
    """A verdict ended the run.

    Attributes:
        run_id: The run.
        detector: The rule.
        scope: ``run``, or ``root`` for the whole family.
        tool: The tool that looped, where one did.
        count: How often.
        verdict_id: The verdict.
    """

    def __init__(
        self,
        message: str,
        *,
        run_id: str,
        detector: str,
        scope: str = "run",
        tool: str | None = None,
        count: int | None = None,
        verdict_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.run_id = run_id
        self.detector = detector
        self.scope = scope
        self.tool = tool
        self.count = count
        self.verdict_id = verdict_id


class CompactionLoopPersisted(RunAborted):
    """The run fell back into the same loop after a compaction (rule 7)."""
