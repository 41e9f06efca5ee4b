"""The seam: what a profile is.

A profile answers four questions about one run (a call, a result, a compaction, what would happen next) and owns its
part of the run's row, the *body*, and of the post-compaction window. Everything that does not depend on how a loop is
recognised (duplicates, ends, releases, forecasts, verdict ids, escalation) stands in ``fold``.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from msgspec import Struct

from loopwarden_schemas.configuration import AgentSettings
from loopwarden_schemas.events import CallRefused, Compaction, ToolCall, ToolResult
from loopwarden_schemas.facts import Facts
from loopwarden_schemas.verdicts import Action, Evidence, Level, Scope, StandingEntry

__all__ = ["Judgement", "Position", "Profile", "ResultView"]


class Position(NamedTuple):
    """Where and when an event stands in the log.

    Attributes:
        topic: Events topic.
        partition: Partition.
        offset: Offset.
        time: The event's own time, epoch milliseconds (the broker's where the event has none).
        stream_time: Running maximum of the partition's broker times, epoch milliseconds; 0 where nothing expires.
    """

    topic: str
    partition: int
    offset: int
    time: int
    stream_time: int


class Judgement(Struct, frozen=True):
    """What a profile says of a call, a result or a compaction.

    Attributes:
        level: warning or critical.
        action: warn, block or abort: what mode ``enforce`` does.
        scope: What the action covers.
        detector: The rule.
        count: How often.
        message: For the model.
        emit: The de-duplication of warnings lets it through (always for critical).
        call_fp: Fingerprint of the judged call.
        target_fp: Fingerprint of its target.
        tool: The judged call's tool.
        paired_tool: The other tool of a ping-pong.
        tools: Tools of a lap.
        period: Length of the lap.
        points: Points.
        evidence: The window that it rests on, oldest first.
        for_root: The judgement is about the family: the verdict names the root (scope root).
    """

    level: Level
    action: Action
    scope: Scope
    detector: str
    count: int
    message: str
    emit: bool = True
    call_fp: str = ""
    target_fp: str | None = None
    tool: str | None = None
    paired_tool: str | None = None
    tools: list[str] | None = None
    period: int | None = None
    points: float | None = None
    evidence: list[Evidence] | None = None
    for_root: bool = False


class ResultView(NamedTuple):
    """What came of a result.

    Attributes:
        judgements: Aborts that it raised.
        recorded: It entered the run's memory.
        matched: It completed a call that was recorded.
        went_on: Its call had been judged critical and ran all the same.
        barren: It brought nothing: the outcome repeats (design: counting).
    """

    judgements: list[Judgement]
    recorded: bool = False
    matched: bool = False
    went_on: bool = False
    barren: bool = False


class Profile(Protocol):
    """One way to recognise a loop. Bodies are changed in place; nothing else is.

    Attributes:
        name: Its name in the configuration.
        has_kin: Its runs have families and hand their state on in a session (``families``, ``sessions``).
    """

    name: str
    has_kin: bool

    def new(self) -> Any:
        """The body of a run that begins."""

    def decode(self, body: bytes, window: bytes | None) -> Any:
        """Reads a body; also one that the version before wrote.

        Args:
            body: The profile's part of the history-ring row.
            window: The post-compaction-window row, None where the guard is not armed.

        Raises:
            ValueError: Not a body of this profile.
        """

    def encode(self, body: Any) -> tuple[bytes, bytes | None]:
        """Writes a body: the part of the history-ring row, and the post-compaction-window row while armed."""

    def on_call(
        self, body: Any, event: ToolCall, facts: Facts, at: Position, settings: AgentSettings
    ) -> list[Judgement]:
        """Judges a call, then records it. A judgement that is held back has ``emit`` false."""

    def on_refused(
        self, body: Any, event: CallRefused, facts: Facts, at: Position, settings: AgentSettings
    ) -> list[Judgement]:
        """A call that the runner refused: takes a judged one back, or judges it without recording it."""

    def on_result(
        self, body: Any, event: ToolResult, facts: Facts, at: Position, settings: AgentSettings
    ) -> ResultView:
        """Records a result."""

    def on_compaction(self, body: Any, event: Compaction, at: Position, settings: AgentSettings) -> list[Judgement]:
        """Takes note of a compaction."""

    def standing(
        self, body: Any, event: Any, facts: Facts | None, at: Position, settings: AgentSettings
    ) -> list[StandingEntry]:
        """What would happen to the calls that may come next (design: verdicts ahead of the call).

        Args:
            body: The body; not changed.
            event: The event just applied, or None (a run that starts again).
            facts: Its facts.
            at: Where and when it stands: the next call is taken to come then.
            settings: The agent's settings.
        """

    def call_fp(self, tool: str, facts: Facts) -> str:
        """The fingerprint under which this profile knows a call: the key of a standing's ``call`` entries."""
