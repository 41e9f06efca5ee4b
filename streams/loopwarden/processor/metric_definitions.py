"""Every metric of the worker, once: name, type, unit, labels, meaning. ``metrics`` counts them, the README lists them.

Counters rise once, when a batch is finished (design: counting): an event that is folded a second time after a crash
counts in the process that finishes it. No run id, call id, argument or result is ever a label. Agent and tool never
stand on one metric; each has a bounded number of values (``labels``).

``python -m loopwarden.processor.metric_definitions`` prints the table of the README.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Literal

__all__ = ["DEFINITIONS", "Definition", "markdown"]

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True)
class Definition:
    """One metric.

    Attributes:
        name: Full name as it is scraped; of a histogram without ``_bucket``, ``_sum``, ``_count``.
        kind: counter, gauge or histogram.
        unit: What one is.
        meaning: In a sentence: its help text.
        labels: Label names.
        buckets: Upper bounds of a histogram's buckets, in its unit.
    """

    name: str
    kind: Kind
    unit: str
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


_FAST = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
_LATENCY = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
_HALT = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_LONG = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_QUEUE = (1.0, 10.0, 100.0, 500.0, 1000.0, 2500.0, 5000.0, 10000.0)

# -- what came in

EVENTS = Definition(
    "loopwarden_events_total", "counter", "events", "Events read and applied, duplicates included.", ("type",)
)
REJECTED = Definition(
    "loopwarden_events_rejected_total",
    "counter",
    "events",
    "Events that could not be taken and went to the dead letters, by field and kind of fault.",
    ("field", "reason"),
)
DUPLICATES = Definition(
    "loopwarden_events_duplicate_total", "counter", "events", "Events dropped because the run had seen their event id."
)
GAPS = Definition(
    "loopwarden_events_missing_total",
    "counter",
    "events",
    "Events that a gap in a run's own sequence says are missing.",
)

# -- what was found

VERDICTS = Definition(
    "loopwarden_verdicts_total",
    "counter",
    "verdicts",
    "Verdicts published. Stage forecast is a changed standing, final the judgement of one event.",
    ("level", "detector", "action", "stage", "after_compaction"),
)
CALLS = Definition(
    "loopwarden_calls_total",
    "counter",
    "calls",
    "Tool calls attempted, by whether the context was compacted fewer than historySize calls ago.",
    ("after_compaction",),
)
AGENT_CALLS = Definition(
    "loopwarden_agent_calls_total", "counter", "calls", "Tool calls attempted, by agent.", ("agent",)
)
TOOL_CALLS = Definition("loopwarden_tool_calls_total", "counter", "calls", "Tool calls attempted, by tool.", ("tool",))
AGENT_LOOPS = Definition(
    "loopwarden_agent_loops_total",
    "counter",
    "verdicts",
    "Final verdicts of level warning or critical, by agent: what the loop rate is made of.",
    ("agent", "detector", "level"),
)
TOOL_LOOPS = Definition(
    "loopwarden_tool_loops_total",
    "counter",
    "verdicts",
    "Final verdicts of level warning or critical, by the judged call's tool.",
    ("tool", "level"),
)
AGENT_BARREN = Definition(
    "loopwarden_agent_barren_calls_total",
    "counter",
    "calls",
    "Calls that brought nothing: their outcome repeats, by agent.",
    ("agent",),
)
TOOL_BARREN = Definition(
    "loopwarden_tool_barren_calls_total",
    "counter",
    "calls",
    "Calls that brought nothing: their outcome repeats, by tool.",
    ("tool",),
)

# -- what was done about it

AGENT_REFUSED = Definition(
    "loopwarden_agent_calls_refused_total", "counter", "calls", "Calls that a runner refused on a verdict.", ("agent",)
)
TOOL_REFUSED = Definition(
    "loopwarden_tool_calls_refused_total",
    "counter",
    "calls",
    "Calls that a runner refused on a verdict, by tool.",
    ("tool",),
)
WENT_ON = Definition(
    "loopwarden_agent_calls_after_verdict_total",
    "counter",
    "calls",
    "Calls that ran although they had been judged critical; in mode observe nobody was to stop them.",
    ("agent", "mode"),
)
ACKS = Definition(
    "loopwarden_acks_total", "counter", "acks", "What runners say they did with a verdict that a call met.", ("result",)
)
ACK_SECONDS = Definition(
    "loopwarden_ack_seconds",
    "histogram",
    "seconds",
    "From receiving a verdict to acting on it, by the runner's clock.",
    buckets=_HALT,
)
HALT_SECONDS = Definition(
    "loopwarden_halt_seconds",
    "histogram",
    "seconds",
    "From a call judged critical to its refusal or the runner's ack, by the broker's clock.",
    buckets=_HALT,
)

# -- runs

RUNS_STARTED = Definition("loopwarden_runs_started_total", "counter", "runs", "run_started events.")
RUNS_ENDED = Definition(
    "loopwarden_runs_ended_total",
    "counter",
    "runs",
    "Runs that ended, by outcome; expired ones were idle for longer than idleTimeoutSeconds.",
    ("outcome",),
)
RUNS_RELEASED = Definition(
    "loopwarden_runs_released_total", "counter", "runs", "Runs that an operator set free: they start clean."
)
LIVE_RUNS = Definition("loopwarden_live_runs", "gauge", "runs", "Runs in table history-ring.", ("partition",))
ARMED_GUARDS = Definition(
    "loopwarden_armed_guards",
    "gauge",
    "runs",
    "Runs in table post-compaction-window: compacted, and watched for the same loop.",
    ("partition",),
)

# -- what loops cost

TOKENS = Definition(
    "loopwarden_agent_tokens_total", "counter", "tokens", "Tokens that events report.", ("agent", "direction")
)
BARREN_TOKENS = Definition(
    "loopwarden_agent_barren_tokens_total",
    "counter",
    "tokens",
    "Tokens spent on calls that brought nothing.",
    ("agent", "direction"),
)
CRITICAL_TOKENS = Definition(
    "loopwarden_agent_after_critical_tokens_total",
    "counter",
    "tokens",
    "Tokens spent by runs after their first critical verdict.",
    ("agent", "direction"),
)
COST = Definition(
    "loopwarden_agent_cost_micros_total",
    "counter",
    "millionths of the currency",
    "Money that events report; whole millionths, so that sums stay exact.",
    ("agent",),
)
BARREN_COST = Definition(
    "loopwarden_agent_barren_cost_micros_total",
    "counter",
    "millionths of the currency",
    "Money spent on calls that brought nothing.",
    ("agent",),
)
CRITICAL_COST = Definition(
    "loopwarden_agent_after_critical_cost_micros_total",
    "counter",
    "millionths of the currency",
    "Money spent by runs after their first critical verdict.",
    ("agent",),
)

# -- the worker

FOLD_SECONDS = Definition(
    "loopwarden_fold_seconds", "histogram", "seconds", "Time to fold one batch of a partition.", buckets=_FAST
)
VERDICT_SECONDS = Definition(
    "loopwarden_event_to_verdict_seconds",
    "histogram",
    "seconds",
    "From the broker's time of the event to its verdict's acknowledgement and the end of its batch.",
    buckets=_LATENCY,
)
LAG = Definition(
    "loopwarden_consumer_lag_records", "gauge", "records", "Records in the log and not yet folded.", ("partition",)
)
LAST_PROGRESS = Definition(
    "loopwarden_last_progress_timestamp_seconds",
    "gauge",
    "seconds since 1970",
    "When a batch of the partition was last finished, by the worker's clock.",
    ("partition",),
)
LAST_COMMIT = Definition(
    "loopwarden_last_commit_timestamp_seconds",
    "gauge",
    "seconds since 1970",
    "When an offset of the partition was last committed, by the worker's clock.",
    ("partition",),
)
COMMITS = Definition("loopwarden_commits_total", "counter", "commits", "Offset commits, one a partition.")
CHANGELOG_BYTES = Definition(
    "loopwarden_changelog_bytes_total", "counter", "bytes", "Bytes of changelog acknowledged by the broker.", ("table",)
)
CHANGELOG_ROWS = Definition(
    "loopwarden_changelog_rows_total", "counter", "rows", "Rows of changelog acknowledged by the broker.", ("table",)
)
RECOVERY_SECONDS = Definition(
    "loopwarden_recovery_seconds",
    "histogram",
    "seconds",
    "Time to restore a partition's tables from their changelogs.",
    buckets=_LONG,
)
RECOVERED_ROWS = Definition("loopwarden_recovered_rows_total", "counter", "rows", "Rows restored from the changelogs.")
REBALANCE_SECONDS = Definition(
    "loopwarden_rebalance_seconds", "histogram", "seconds", "Time that a rebalance of the group took.", buckets=_LONG
)
CONFIGURATION = Definition(
    "loopwarden_configuration_info", "gauge", "1", "The configuration in force, by its version.", ("version",)
)
RELOADS = Definition(
    "loopwarden_configuration_changes_total", "counter", "changes", "Times that a changed configuration was taken."
)
BUILD = Definition("loopwarden_build_info", "gauge", "1", "Version of this worker.", ("version",))

# -- the runners, as they report it themselves

RUNNER_DROPPED = Definition(
    "loopwarden_runner_dropped_events_total",
    "counter",
    "events",
    "Events that a runner dropped: its queue was full, or the broker away for too long.",
)
RUNNER_QUEUE = Definition(
    "loopwarden_runner_queue_events",
    "histogram",
    "events",
    "High water of a runner's queue between two of its reports.",
    buckets=_QUEUE,
)
RUNNER_PUBLISH = Definition(
    "loopwarden_runner_publish_seconds",
    "histogram",
    "seconds",
    "Slowest publish of a runner between two of its reports.",
    buckets=_LATENCY,
)

DEFINITIONS: tuple[Definition, ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, Definition)
)
"""All of them, in the order of this file."""


def markdown() -> str:
    """The table of metrics, as the README shows it."""
    lines = ["| metric | type | labels | unit | meaning |", "|---|---|---|---|---|"]
    lines += [
        f"| `{one.name}` | {one.kind} | {', '.join(f'`{label}`' for label in one.labels) or '–'} | {one.unit} "
        f"| {inspect.cleandoc(one.meaning)} |"
        for one in DEFINITIONS
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")
