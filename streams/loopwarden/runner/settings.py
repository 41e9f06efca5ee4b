"""How a runner is set up: checked once, then the same for all its runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from loopwarden.errors import UsageError
from loopwarden.runner.content import Content
from loopwarden.runner.policy import Policy
from loopwarden_schemas.verdicts import Mode

__all__ = ["RunnerSettings", "StrictFail"]

StrictFail = Literal["open", "closed"]


@dataclass(frozen=True, kw_only=True)
class RunnerSettings:
    """What every run of a process has in common; see ``LoopWarden`` for each.

    Raises:
        UsageError: A value that cannot be.
    """

    agent_id: str | None = None
    mode: Mode = "enforce"
    content: Content = field(default_factory=Content)
    salt: bytes = field(default=b"", repr=False)
    strict: bool = False
    strict_timeout: float = 1.0
    strict_fail: StrictFail = "open"
    policy: Policy = field(default_factory=Policy)

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise UsageError(f"mode {self.mode!r} is neither 'enforce' nor 'observe'")
        if self.strict_fail not in get_args(StrictFail):
            raise UsageError(f"strict_fail {self.strict_fail!r} is neither 'open' nor 'closed'")
        if not 0 < self.strict_timeout < 3600:
            raise UsageError(f"strict_timeout {self.strict_timeout!r} is not a number of seconds above 0")
