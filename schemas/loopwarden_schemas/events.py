"""What agent runners publish: one tagged union, told apart by ``type``.

JSON on the wire. Unknown fields are ignored, so that an older worker reads a newer runner; an unknown type is kept in
the dead-letter topic. Only ``run_id`` is required of every event; whatever else is missing makes detection coarser,
never an error. Times are epoch milliseconds.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from loopwarden_schemas.facts.structure import Facts

__all__ = [
    "EVENT_TYPES",
    "AckResult",
    "CallRefused",
    "Compaction",
    "Event",
    "EventBase",
    "PublisherStats",
    "RunEnded",
    "RunReleased",
    "RunStarted",
    "ToolCall",
    "ToolResult",
    "Usage",
    "VerdictAck",
]

RUN_ID_BYTES = 256
"""A run id has at most this many bytes of UTF-8 and does not begin with NUL (NUL keys are the tables' own)."""

# What the codec checks after trimming; as far as a schema can say it, for publishers in other languages.
_RUN_ID_SCHEMA = {"maxLength": RUN_ID_BYTES, "pattern": r"^\s*[^\s\u0000]"}
RunId = Annotated[str, Meta(extra_json_schema=_RUN_ID_SCHEMA)]
Id = Annotated[str, Meta(max_length=256)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
Label = Annotated[str, Meta(max_length=256)]
AckResult = Literal["applied", "ignored", "late", "unsupported"]


class Usage(Struct, kw_only=True, omit_defaults=True):
    """What the model used since the last event that said so: a delta, at most once a model response, on its first call.

    Attributes:
        tokens_in: Tokens read.
        tokens_out: Tokens written.
        cost: Integer micro-units of the one currency that the deployment is configured for.
    """

    tokens_in: Count = 0
    tokens_out: Count = 0
    cost: Count = 0


class PublisherStats(Struct, kw_only=True, omit_defaults=True):
    """How the runner library itself is doing since its last report.

    Attributes:
        dropped: Events dropped because the queue was full or the broker away too long.
        queue_high: Highest number of events waiting.
        publish_ms: Slowest publish in milliseconds.
    """

    dropped: Count = 0
    queue_high: Count = 0
    publish_ms: Count = 0


class EventBase(Struct, kw_only=True, omit_defaults=True, tag_field="type"):
    """What every event carries.

    Attributes:
        run_id: The run; the message key where there is no ``root_run_id``. Trimmed; blank is an error.
        event_id: Unique within the run; a repeated one is dropped (the last 64 of a run are known).
        agent_id: The agent, for its configuration and its label.
        ts: Runner's clock, epoch milliseconds.
        seq: The run's own counter; gaps are counted, never waited for.
        parent_run_id: The run that started this one.
        root_run_id: The run at the top of the family; then the message key, so that a family shares a partition.
        session_id: The session that the run belongs to.
        batch_id: The model response that asked for this call: parallel calls share it.
        usage: What the model used, see ``Usage``.
        publisher: How the runner library is doing, see ``PublisherStats``.
    """

    run_id: RunId
    event_id: Id | None = None
    agent_id: Id | None = None
    ts: float | int | None = None
    seq: Count | None = None
    parent_run_id: Id | None = None
    root_run_id: Id | None = None
    session_id: Id | None = None
    batch_id: Id | None = None
    usage: Usage | None = None
    publisher: PublisherStats | None = None

    @property
    def type_(self) -> str:
        """The event's type as it stands on the wire."""
        return _TYPES[type(self)]

    @property
    def key(self) -> str:
        """The message key: the root run's id where there is one, else the run's own."""
        return self.root_run_id or self.run_id


class RunStarted(EventBase, kw_only=True, omit_defaults=True, tag="run_started"):
    """A run begins, or its process does again: for a run that is known it resets nothing, the standing is sent again.

    Attributes:
        framework: Agent framework, such as ``langgraph``.
        version: Version of framework or runner.
        model: Model name.
    """

    framework: Label | None = None
    version: Label | None = None
    model: Label | None = None


class _Call(EventBase, kw_only=True, omit_defaults=True):
    tool: Annotated[str, Meta(max_length=4096)]
    call_id: Annotated[str, Meta(max_length=1024)] | None = None
    args: Raw | UnsetType = UNSET
    facts: Facts | None = None


class ToolCall(_Call, kw_only=True, omit_defaults=True, tag="tool_call"):
    """A call is about to run.

    Attributes:
        tool: Exact tool name.
        call_id: The runner's id of the call.
        args: Raw arguments, from a runner that publishes content.
        facts: What the arguments come to; wins over ``args``.
        want_verdict: Answer even a healthy call (level none, action allow).
    """

    want_verdict: bool = False


class ToolResult(_Call, kw_only=True, omit_defaults=True, tag="tool_result"):
    """A call came back. May arrive without its call, or without arguments.

    Attributes:
        tool: Exact tool name.
        call_id: The runner's id of the call.
        args: Raw arguments.
        facts: What arguments and outcome come to; wins over content.
        result: Raw result.
        error: Raw error; wins over ``result``; null is an error too.
        vetoed: Somebody else (a person, a policy) refused the call.
    """

    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET
    vetoed: bool = False


class Compaction(EventBase, kw_only=True, omit_defaults=True, tag="compaction"):
    """The context was compacted.

    Attributes:
        retry: The run goes on with the compacted context: arms the guard (rule 7). Assumed when not said.
        tokens_before: Size of the context before, in tokens.
        tokens_after: Size after.
    """

    retry: bool = True
    tokens_before: Count | None = None
    tokens_after: Count | None = None


class RunEnded(EventBase, kw_only=True, omit_defaults=True, tag="run_ended"):
    """A run is over; its state goes.

    Attributes:
        outcome: ``success``, ``failure``, ``aborted``, ``cancelled``, or the runner's own word.
    """

    outcome: Label | None = None


class CallRefused(_Call, kw_only=True, omit_defaults=True, tag="call_refused"):
    """The runner refused a call on a verdict. One whose ``call_id`` was judged already takes that call back.

    Attributes:
        tool: Exact tool name.
        call_id: The runner's id of the call.
        args: Raw arguments.
        facts: What the arguments come to.
        verdict_id: The verdict that it was refused on.
    """

    verdict_id: Id | None = None


class VerdictAck(EventBase, kw_only=True, omit_defaults=True, tag="verdict_ack"):
    """What the runner did with a verdict. Changes no profile's state.

    Attributes:
        verdict_id: The verdict.
        result: ``applied``; ``ignored`` (policy or mode); ``late`` (the call ran already); ``unsupported``.
        call_id: The call that met it.
        after_ms: Milliseconds from receiving the verdict to acting on it.
    """

    verdict_id: Id
    result: AckResult
    call_id: Annotated[str, Meta(max_length=1024)] | None = None
    after_ms: Count | None = None


class RunReleased(EventBase, kw_only=True, omit_defaults=True, tag="run_released"):
    """An operator's hand: the run starts clean, refused calls are allowed again.

    Attributes:
        by: Who.
        reason: Why.
    """

    by: Label | None = None
    reason: Label | None = None


Event = RunStarted | ToolCall | ToolResult | Compaction | RunEnded | CallRefused | VerdictAck | RunReleased
"""Any event."""
_TYPES: dict[type, str] = {kind: str(kind.__struct_config__.tag) for kind in get_args(Event)}
EVENT_TYPES: tuple[str, ...] = tuple(_TYPES.values())
"""Their types as they stand on the wire."""
