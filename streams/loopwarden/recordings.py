"""Recorded runs as event logs: the traces' form and the cases' form, for scoreboard, back-test and benchmarks.

*Traces*, one JSON object a line: ``{"trace_id", "outcome", "events": [{"tool", "params", "result" | "error"}]}``.
*Cases*, one JSON list: ``{"id", "title", "expected": {"verdict"}, "events": [...]}``, where an event may also have
``run``, ``parent_run``, ``session``, ``batch`` and ``t`` (seconds), or be a ``{"event": "compaction"}``.

Every finished call becomes a ``tool_call`` and a ``tool_result``; the calls of one batch come before their results.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Raw

from loopwarden.errors import UsageError
from loopwarden_schemas.codec import encode_event
from loopwarden_schemas.events import Compaction, Event, ToolCall, ToolResult

__all__ = ["LogRecord", "Recording", "read_recordings"]

START_MS = 1_700_000_000_000
"""When a recording without times takes place: all at once."""


class LogRecord(NamedTuple):
    """An event as it would stand in the events topic; see ``loopwarden.detection.partition.Record``."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()


@dataclass(frozen=True)
class Recording:
    """One recorded task: a run, or the runs of a family or a session.

    Attributes:
        name: Its id in the file.
        outcome: How it ended, as the file has it; None where it does not say.
        expected: Verdict level that is right for it; None where the file does not say.
        events: Its events, in order.
    """

    name: str
    outcome: str | None
    expected: str | None
    events: list[Event]

    def log(self) -> list[LogRecord]:
        """The events as records of one partition."""
        return [
            LogRecord(
                offset,
                START_MS if event.ts is None else int(event.ts),
                event.key.encode("utf-8", "surrogatepass"),
                encode_event(event),
            )
            for offset, event in enumerate(self.events)
        ]


def read_recordings(path: str | Path) -> list[Recording]:
    """Reads a file of the traces' or of the cases' form.

    Raises:
        UsageError: It cannot be read, or is of neither form.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
        documents = (
            json.loads(text)
            if text.lstrip().startswith("[")
            else [json.loads(line) for line in text.splitlines() if line]
        )
        return [_recording(document) for document in documents]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"lacks {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
        raise UsageError(
            f"{path}: cannot be read as recorded runs: {reason}",
            hint='one JSON object a line with "trace_id" and "events", or one JSON list with "id" and "events"',
        ) from None


def _recording(document: dict[str, Any]) -> Recording:
    name = document["trace_id"] if "trace_id" in document else document["id"]
    expected = document.get("expected") or {}
    return Recording(str(name), document.get("outcome"), expected.get("verdict"), list(_events(document["events"])))


class _Lineage:
    """Which run is at the top of a run's family; a run that goes on with a compacted session keeps its root."""

    def __init__(self) -> None:
        self.roots: dict[str, str] = {}
        self.last: dict[str, str] = {}
        self.compacted: set[str] = set()

    def root(self, raw: dict[str, Any]) -> str:
        run = str(raw.get("run", "run"))
        session = str(raw.get("session", ""))
        if run not in self.roots:
            parent = raw.get("parent_run")
            if parent is not None:
                self.roots[run] = self.roots.get(str(parent), str(parent))
            elif session in self.compacted:
                self.roots[run] = self.roots[self.last[session]]
            else:
                self.roots[run] = run
            self.compacted.discard(session)
        self.last[session] = self.last[""] = run
        return self.roots[run]


def _events(raws: list[dict[str, Any]]) -> Iterator[Event]:
    lineage = _Lineage()
    made = 0
    for batch, members in groupby(raws, key=lambda raw: raw.get("batch")):
        group = list(members)
        for calls in [group] if batch is not None else [[raw] for raw in group]:
            results: list[Event] = []
            for raw in calls:
                if raw.get("event") == "compaction":
                    yield _compaction(raw, lineage)
                    continue
                made += 1
                call, result = _call(raw, lineage, f"c{made}")
                yield call
                results.append(result)
            yield from results


def _compaction(raw: dict[str, Any], lineage: _Lineage) -> Compaction:
    session = raw.get("session")
    run = str(raw.get("run") or lineage.last.get(str(session or ""), "run"))
    if session is not None:
        lineage.compacted.add(str(session))
    root = lineage.roots.get(run, run)
    return Compaction(
        run_id=run,
        root_run_id=None if root == run else root,
        session_id=None if session is None else str(session),
        ts=_time(raw),
        tokens_before=raw.get("tokens_before"),
        tokens_after=raw.get("tokens_after"),
    )


def _call(raw: dict[str, Any], lineage: _Lineage, call_id: str) -> tuple[ToolCall, ToolResult]:
    root = lineage.root(raw)
    run = str(raw.get("run", "run"))
    common: dict[str, Any] = {
        "run_id": run,
        "root_run_id": None if root == run else root,
        "parent_run_id": raw.get("parent_run"),
        "session_id": raw.get("session"),
        "batch_id": raw.get("batch"),
        "ts": _time(raw),
        "tool": str(raw["tool"]),
        "call_id": call_id,
        "args": _content(raw, "params"),
    }
    return ToolCall(**common), ToolResult(**common, result=_content(raw, "result"), error=_content(raw, "error"))


def _time(raw: dict[str, Any]) -> int | None:
    return None if raw.get("t") is None else START_MS + round(float(raw["t"]) * 1000)


def _content(raw: dict[str, Any], field: str) -> Any:
    return Raw(msgspec.json.encode(raw[field])) if field in raw else UNSET
