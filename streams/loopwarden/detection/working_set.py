"""The runs that a batch has at work: loaded when first met, changed in memory, written once at the end.

An event whose fold fails must leave no trace in its run, nor in its family or session. States change in place, so what
was applied to all of them is then folded again from their rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import msgspec

from loopwarden.detection import families, run_state
from loopwarden.detection.fold import NEED_A_RUN, Folded, fold
from loopwarden.detection.kin import Kin, Parked
from loopwarden.detection.profile import Position
from loopwarden.detection.profiles import PROFILES
from loopwarden.detection.run_state import RowVersionError, RunState
from loopwarden_schemas.configuration import AgentSettings, Configuration
from loopwarden_schemas.errors import WireError
from loopwarden_schemas.events import CallRefused, Compaction, Event, RunEnded, RunReleased, ToolCall, ToolResult
from loopwarden_schemas.facts import Facts, reduce_event
from loopwarden_schemas.facts.progress import CallFacts, overridden
from loopwarden_schemas.fingerprint import id_hash

__all__ = ["ApplyFailed", "Rows", "RunRows", "WorkingSet"]

_WITH_FACTS = (ToolCall, ToolResult, CallRefused)


class Rows(Protocol):
    """The rows of one partition, as of its applied watermark."""

    def history(self, key: bytes) -> bytes | None:
        """Row of history-ring."""

    def window(self, key: bytes) -> bytes | None:
        """Row of post-compaction-window."""


class ApplyFailed(Exception):
    """Reducing or folding an event raised: a fault of ours. Nothing of the event is left.

    Attributes:
        field: Where, as a dead letter has it.
        reason: What.
    """

    def __init__(self, field: str, cause: Exception) -> None:
        super().__init__(field)
        self.field = field
        self.reason = f"failed with {type(cause).__name__}"


class RunRows(NamedTuple):
    """What a run's rows come to; None is a tombstone.

    Attributes:
        key: The run's key.
        history: Row of history-ring.
        window: Row of post-compaction-window.
        writes_history: There is, or was, a row of history-ring.
        writes_window: There is, or was, a row of post-compaction-window.
        offset: Offset of the run's last event in the batch; -1 where another run's event changed it.
    """

    key: bytes
    history: bytes | None
    window: bytes | None
    writes_history: bool
    writes_window: bool
    offset: int


class _Applied(NamedTuple):
    run: _Run
    event: Event
    facts: Facts | None
    at: Position


class _Run:
    """A run at work: its state, and what it was loaded from."""

    __slots__ = ("changed", "key", "offset", "root", "row", "state", "window_row")

    def __init__(self, key: bytes, row: bytes | None, window_row: bytes | None) -> None:
        self.key = key
        self.row = row
        self.window_row = window_row
        self.root = ""
        self.reload()

    def reload(self) -> None:
        """Goes back to the rows."""
        self.state: RunState | None = None if self.row is None else run_state.decode(self.row, self.window_row)
        self.offset = -1
        self.changed = False


class WorkingSet:
    """The runs at work in a batch.

    Args:
        rows: The partition's rows. Nothing in them changes.
        configuration: The configuration in force.
    """

    def __init__(self, rows: Rows, configuration: Configuration) -> None:
        self._rows = rows
        self._configuration = configuration
        self._runs: dict[bytes, _Run] = {}
        self._applied: list[_Applied] = []
        self._kin = Kin(rows)

    def apply(self, event: Event, at: Position) -> Folded:
        """Applies an event to its run, and to its family.

        Raises:
            WireError: Its content cannot be read.
            ApplyFailed: Reducing or folding it raised.
            RowVersionError: A row is of a newer version: this worker must not go on.
        """
        run = self._run(event.run_id.encode("utf-8", "surrogatepass"))
        settings = self._settings(run.state, event)
        facts = None
        if isinstance(event, _WITH_FACTS):
            try:
                facts = _facts(event, run.state.profile if run.state is not None else settings.profile, settings)
            except WireError:
                raise
            except Exception as error:
                raise ApplyFailed("message", error) from error
        try:
            folded = self._fold(run, event, facts, at, settings)
        except RowVersionError:
            raise
        except Exception as error:
            self._undo(run)
            raise ApplyFailed("fold", error) from error
        self._applied.append(_Applied(run, event, facts, at))
        return folded

    def rows(self) -> Iterator[RunRows]:
        """Rows of the runs that changed."""
        for run in self._runs.values():
            if run.offset < 0 and not run.changed:
                continue
            row, window = (None, None) if run.state is None else run_state.encode(run.state)
            writes_window = run.offset >= 0 and (window is not None or run.window_row is not None)
            yield RunRows(run.key, row, window, row is not None or run.row is not None, writes_window, run.offset)

    def kin_rows(self) -> dict[bytes, bytes | None]:
        """Rows of families and sessions that changed; None is a tombstone."""
        return self._kin.changed()

    def _run(self, key: bytes) -> _Run:
        run = self._runs.get(key)
        if run is None:
            run = self._runs[key] = _Run(key, self._rows.history(key), self._rows.window(key))
        return run

    def _settings(self, state: RunState | None, event: Event) -> AgentSettings:
        return self._configuration.settings_for(event.agent_id or (state.agent_id if state is not None else None))

    def _fold(self, run: _Run, event: Event, facts: Facts | None, at: Position, settings: AgentSettings) -> Folded:
        profile = PROFILES[run.state.profile if run.state is not None else settings.profile]
        if profile.has_kin:
            folded = self._fold_with_kin(run, event, facts, at, settings)
        else:
            folded = fold(run.state, event, facts, at, settings)
        run.state = folded.state
        run.offset = at.offset
        return folded

    def _fold_with_kin(
        self, run: _Run, event: Event, facts: Facts | None, at: Position, settings: AgentSettings
    ) -> Folded:
        root = run.root = families.root_of(event, run.state)
        if run.state is None and event.session_id is not None and type(event) not in NEED_A_RUN:
            self._adopt(run, id_hash(event.session_id), at, settings)
        before = run.state
        folded = fold(before, event, facts, at, settings, self._kin.family(root, at, settings))
        if not folded.applied:
            return folded
        if isinstance(event, _WITH_FACTS):
            if facts is not None and families.spawns(event, facts):
                self._kin.put_family(root, folded.family)
        elif isinstance(event, RunReleased):
            if folded.family is not None:
                self._kin.put_family(root, folded.family)
        elif isinstance(event, Compaction):
            if event.session_id is not None and folded.state is not None:
                state = folded.state
                parked = Parked(1, run.key, state.agent_id, state.last_time, state.profile)
                state.body.session = self._kin.park(root, event.session_id, parked)
        elif isinstance(event, RunEnded) and before is not None and before.body.session:
            self._leave(run, before)
        return folded

    def _adopt(self, run: _Run, session: bytes, at: Position, settings: AgentSettings) -> None:
        """A run that begins in a compacted session goes on with the state that was parked there."""
        parked = self._kin.parked(run.root, session)
        if parked is None or parked.profile != settings.profile or _is_idle(parked, at, settings):
            return
        self._kin.take(run.root, session)
        rules = PROFILES[parked.profile]
        if parked.body is not None:
            body = rules.decode(parked.body, parked.window)
        else:
            owner = self._run(parked.run)
            if owner is run or owner.state is None or owner.state.profile != parked.profile:
                return
            owner.state.body.session = b""
            owner.changed = True
            body = rules.decode(*rules.encode(owner.state.body))
        body.session = b""
        run.state = run_state.new(parked.profile, at.stream_time or at.time)
        run.state.agent_id = parked.agent_id
        run.state.body = body

    def _leave(self, run: _Run, ended: RunState) -> None:
        """A run that ends while its session is parked leaves its state there."""
        session = ended.body.session
        parked = self._kin.parked(run.root, session)
        if parked is None or parked.run != run.key:
            return
        body, window = ended.rules.encode(ended.body)
        left = Parked(1, run.key, ended.agent_id, ended.last_time, ended.profile, body, window)
        self._kin.put(run.root, session, left)

    def _undo(self, failed: _Run) -> None:
        """Takes back an event whose fold failed half-way: everything of its root is folded again from its rows."""
        kindred = {failed.key} | {key for key, run in self._runs.items() if failed.root and run.root == failed.root}
        for key in kindred:
            self._runs[key].reload()
        self._kin.forget(failed.root)
        for run, event, facts, at in self._applied:
            if run.key in kindred:
                self._fold(run, event, facts, at, self._settings(run.state, event))


def _facts(event: ToolCall | ToolResult | CallRefused, profile: str, settings: AgentSettings) -> Facts:
    """Facts for the profile that judges the run, with what the configuration says of the tool."""
    facts = reduce_event(event, (profile,))
    if profile == "progress":
        for tool, kind, wait in settings.tools:
            if tool == event.tool:
                known = CallFacts("", "", facts.kind or "other", facts.wait, facts.spawn)  # type: ignore[arg-type]
                said = overridden(known, kind, wait)
                return msgspec.structs.replace(facts, kind=said.kind, wait=said.wait, spawn=said.spawn)
    return facts


def _is_idle(parked: Parked, at: Position, settings: AgentSettings) -> bool:
    limit = settings.idle_timeout_ms
    return bool(limit and at.stream_time and at.stream_time - parked.last_time > limit)
