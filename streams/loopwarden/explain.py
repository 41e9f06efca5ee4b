"""Why was this run stopped? What the topics still say of one: for runs that have ended, and for what runners did.

The run's retained events are folded again, as the worker did; its verdicts are read, not worked out anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from loopwarden.connection import Connection
from loopwarden.processor.web.inspection import Deed, PastRun
from loopwarden.replay import PartitionReplay, Span
from loopwarden.topic_reading import TopicReader, open_reader
from loopwarden_schemas.codec import decode_event, decode_verdict, event_time
from loopwarden_schemas.errors import WireError
from loopwarden_schemas.events import CallRefused, Event, RunEnded, RunReleased, RunStarted, VerdictAck
from loopwarden_schemas.topics import Topics
from loopwarden_schemas.verdicts import Verdict

__all__ = ["Spans", "explain"]

Spans = Callable[[int], Sequence[Span]]
"""Configurations that a partition was folded under; at least one."""


class _Kept(NamedTuple):
    partition: int
    record: Any
    event: Event


async def explain(
    connection: Connection,
    topics: Topics,
    run_id: str,
    partition: int | None,
    spans: Spans,
    *,
    expiry: bool = True,
) -> PastRun | None:
    """Reads up on a run.

    Args:
        connection: The cluster.
        topics: Its topics.
        run_id: The run.
        partition: Its partition; None where nobody knows it, then all are read.
        spans: What each partition was folded under.
        expiry: Idle runs end (the broker stamps records itself).

    Returns:
        What is known; None if neither an event nor a verdict of the run is left.

    Raises:
        BrokerError: The cluster cannot be reached, or lacks a topic.
    """
    async with open_reader(connection, topics.events) as reader:
        partitions = reader.partitions if partition is None else [partition]
        bounds = await reader.bounds()
        kept = await _events(reader, partitions, lambda record: _mentions(record, run_id))
        # Others' ids may contain this one.
        own = [one for one in kept if one.event.run_id == run_id]
        where = own[0].partition if own else -1
        if own and own[0].event.key != run_id:
            # Its family may have a say in how it is judged.
            key = own[0].record.key
            kept = await _events(reader, [where], lambda record: record.key == key)
            own = [one for one in kept if one.event.run_id == run_id]
        else:
            kept = own
    async with open_reader(connection, topics.verdicts) as reader:
        verdicts, verdicts_in = await _verdicts(reader, [where] if own else partitions, run_id)
    if not own and not verdicts:
        return None
    ended = bool(own) and isinstance(own[-1].event, RunEnded)
    until = own[-1].record.offset if ended else None
    history, window = None, None
    if own:
        replay = PartitionReplay(topics.events, where, spans(where), expiry=expiry)
        for _ in replay.fold([one.record for one in kept if until is None or one.record.offset < until]):
            pass
        row_key = run_id.encode("utf-8", "surrogatepass")
        history, window = replay.rows.history(row_key), replay.rows.window(row_key)
    return PastRun(
        run_id=run_id,
        partition=where if own else verdicts_in,
        history=history,
        window=window,
        verdicts=verdicts,
        deeds=[deed for one in own if (deed := _deed(one)) is not None],
        ended=ended,
        complete=bool(own) and (bounds[where].begin == 0 or isinstance(own[0].event, RunStarted)),
    )


async def _events(reader: TopicReader, partitions: Sequence[int], wanted: Callable[[Any], bool]) -> list[_Kept]:
    """Events of the records that are wanted, in order within each partition."""
    kept = []
    async for partition, records in reader.to_end(partitions):
        for record in records:
            if not record.value or not wanted(record):
                continue
            try:
                event = decode_event(record.value)
            except WireError:
                continue
            if record.key == event.key.encode("utf-8", "surrogatepass"):
                # A message under another key is a dead letter, and was not folded.
                kept.append(_Kept(partition, record, event))
    return kept


async def _verdicts(reader: TopicReader, partitions: Sequence[int], run_id: str) -> tuple[list[Verdict], int]:
    """Verdicts on a run, each once, in order, and their partition."""
    found: dict[str, Verdict] = {}
    where = -1
    async for partition, records in reader.to_end(partitions):
        for record in records:
            if not record.value or not _mentions(record, run_id):
                continue
            try:
                verdict = decode_verdict(record.value)
            except WireError:
                continue
            if verdict.run_id == run_id:
                where = partition
                found.setdefault(verdict.id, verdict)
    return sorted(found.values(), key=lambda verdict: verdict.cause.offset), where


def _mentions(record: Any, run_id: str) -> bool:
    """Whether a record may be about the run, without decoding it."""
    # JSON may write anything but plain ASCII in more than one way.
    plain = run_id.isascii() and run_id.isprintable() and not {'"', "\\", "/"} & set(run_id)
    return not plain or run_id.encode() in record.value


def _deed(one: _Kept) -> Deed | None:
    event, at = one.event, event_time(one.event, one.record.timestamp)
    if isinstance(event, CallRefused):
        return Deed(at, event.type_, event.tool, event.verdict_id or "")
    if isinstance(event, VerdictAck):
        return Deed(at, event.type_, event.result, event.verdict_id)
    if isinstance(event, RunReleased):
        return Deed(at, event.type_, ", ".join(filter(None, [event.by, event.reason])))
    if isinstance(event, RunEnded):
        return Deed(at, event.type_, event.outcome or "")
    return None
