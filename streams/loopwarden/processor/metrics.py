"""Counts what the worker does. Listens as ``observer.Observer`` says; what each metric means: ``metric_definitions``.

A batch is summed up in plain dictionaries first and then added to the counters, one call a series and batch, so that
an event costs a dictionary entry and no lock.
"""

from __future__ import annotations

import time
from collections import Counter as Tally
from importlib.metadata import PackageNotFoundError, version

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from loopwarden.detection.notes import Note
from loopwarden.detection.partition import Batch
from loopwarden.processor import metric_definitions as define
from loopwarden.processor.metric_definitions import Definition
from loopwarden.processor.metric_labels import (
    AGENTS,
    DOCUMENTED_RULES,
    NONE,
    OTHER,
    OUTCOMES,
    PROGRESS_RULES,
    REJECTIONS,
    TOOLS,
    Allotment,
    configured_tools,
    rejection,
)
from loopwarden_schemas.configuration import Configuration
from loopwarden_schemas.events import EVENT_TYPES, PublisherStats, Usage

__all__ = ["Metrics"]

_BOOLEAN = ("false", "true")
_RESULTS = ("applied", "ignored", "late", "unsupported")
_VALUED = frozenset(["ack", "halted", "seq_gap"])
_TABLES = ("history-ring", "post-compaction-window")


class Metrics:
    """The worker's metrics.

    Args:
        configuration: Agents and tools that it names get a label value first; rules are those of its profiles.
        registry: Where they are registered; a new one by default.
    """

    def __init__(self, configuration: Configuration, registry: CollectorRegistry | None = None) -> None:
        # A `_created` series beside each counter would double what is scraped, and nothing here reads it.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry if registry is not None else CollectorRegistry()
        self._agents = Allotment(AGENTS, configuration.agent_ids)
        self._tools = Allotment(TOOLS, configured_tools(configuration))
        self._known_agents: set[str] = set()
        self._known_tools: set[str] = set()
        self._configuration = configuration

        self._events = self._counter(define.EVENTS)
        self._rejected = self._counter(define.REJECTED)
        self._duplicates = self._counter(define.DUPLICATES)
        self._gaps = self._counter(define.GAPS)
        self._verdicts = self._counter(define.VERDICTS)
        self._calls = self._counter(define.CALLS)
        self._agent_calls = self._counter(define.AGENT_CALLS)
        self._tool_calls = self._counter(define.TOOL_CALLS)
        self._agent_loops = self._counter(define.AGENT_LOOPS)
        self._tool_loops = self._counter(define.TOOL_LOOPS)
        self._agent_barren = self._counter(define.AGENT_BARREN)
        self._tool_barren = self._counter(define.TOOL_BARREN)
        self._agent_refused = self._counter(define.AGENT_REFUSED)
        self._tool_refused = self._counter(define.TOOL_REFUSED)
        self._went_on = self._counter(define.WENT_ON)
        self._acks = self._counter(define.ACKS)
        self._ack_seconds = self._histogram(define.ACK_SECONDS)
        self._halt_seconds = self._histogram(define.HALT_SECONDS)
        self._runs_started = self._counter(define.RUNS_STARTED)
        self._runs_ended = self._counter(define.RUNS_ENDED)
        self._runs_released = self._counter(define.RUNS_RELEASED)
        self._live_runs = self._gauge(define.LIVE_RUNS)
        self._armed_guards = self._gauge(define.ARMED_GUARDS)
        self._tokens = self._counter(define.TOKENS)
        self._barren_tokens = self._counter(define.BARREN_TOKENS)
        self._critical_tokens = self._counter(define.CRITICAL_TOKENS)
        self._cost = self._counter(define.COST)
        self._barren_cost = self._counter(define.BARREN_COST)
        self._critical_cost = self._counter(define.CRITICAL_COST)
        self._fold_seconds = self._histogram(define.FOLD_SECONDS)
        self._verdict_seconds = self._histogram(define.VERDICT_SECONDS)
        self._lag = self._gauge(define.LAG)
        self._last_progress = self._gauge(define.LAST_PROGRESS)
        self._last_commit = self._gauge(define.LAST_COMMIT)
        self._commits = self._counter(define.COMMITS)
        self._changelog_bytes = self._counter(define.CHANGELOG_BYTES)
        self._changelog_rows = self._counter(define.CHANGELOG_ROWS)
        self._recovery_seconds = self._histogram(define.RECOVERY_SECONDS)
        self._recovered_rows = self._counter(define.RECOVERED_ROWS)
        self._rebalance_seconds = self._histogram(define.REBALANCE_SECONDS)
        self._configuration_info = self._gauge(define.CONFIGURATION)
        self._reloads = self._counter(define.RELOADS)
        self._runner_dropped = self._counter(define.RUNNER_DROPPED)
        self._runner_queue = self._histogram(define.RUNNER_QUEUE)
        self._runner_publish = self._histogram(define.RUNNER_PUBLISH)
        self._partition_gauges = (
            self._live_runs,
            self._armed_guards,
            self._lag,
            self._last_progress,
            self._last_commit,
        )
        self._gauge(define.BUILD).labels(_version()).set(1)
        ProcessCollector(registry=self.registry)
        self._create_children()

    def exposition(self) -> bytes:
        """All metrics in Prometheus's text format, version 0.0.4."""
        return generate_latest(self.registry)

    # -- observer.Observer

    def batch_finished(self, partition: int, batch: Batch, *, fold_seconds: float, now_ms: int) -> None:
        """Counts a batch that is finished.

        Args:
            partition: Its partition.
            batch: What it came to.
            fold_seconds: Seconds that the fold took.
            now_ms: Worker's clock, epoch milliseconds.
        """
        for kind, number in batch.events.items():
            self._events.labels(kind).inc(number)
        for letter in batch.dead_letters:
            self._rejected.labels(*rejection(letter)).inc()
        self._count_notes(batch.notes)
        if batch.verdicts:
            self._count_verdicts(batch, now_ms)
        self._fold_seconds.observe(fold_seconds)
        self._last_progress.labels(partition).set(now_ms / 1000)

    def changelog_written(self, table: str, size: int, rows: int) -> None:
        """Counts acknowledged rows of a table, and their bytes."""
        self._changelog_bytes.labels(table).inc(size)
        self._changelog_rows.labels(table).inc(rows)

    def live_runs(self, partition: int, number: int) -> None:
        """Sets the number of runs in history-ring."""
        self._live_runs.labels(partition).set(number)

    def armed_guards(self, partition: int, number: int) -> None:
        """Sets the number of runs in post-compaction-window."""
        self._armed_guards.labels(partition).set(number)

    def runs_expired(self, partition: int, number: int) -> None:
        """Counts runs that the sweep found idle for too long."""
        self._runs_ended.labels("expired").inc(number)

    def lag(self, partition: int, records: int) -> None:
        """Sets a partition's lag."""
        self._lag.labels(partition).set(records)

    def commit(self, partition: int) -> None:
        """Counts a commit of a partition's offsets."""
        self._commits.inc()
        self._last_commit.labels(partition).set(time.time())

    def recovered(self, partition: int, rows: int, seconds: float) -> None:
        """Counts the recovery of a partition."""
        self._recovery_seconds.observe(seconds)
        self._recovered_rows.inc(rows)

    def rebalanced(self, seconds: float) -> None:
        """Counts a rebalance."""
        self._rebalance_seconds.observe(seconds)

    def partition_lost(self, partition: int) -> None:
        """Forgets the gauges of a partition that another worker has now."""
        for gauge in self._partition_gauges:
            gauge.remove_by_labels({"partition": str(partition)})

    def reconfigured(self, configuration: Configuration) -> None:
        """Takes a changed configuration: agents and tools that it names get what is left of the label values."""
        self._reloads.inc()
        self._configuration = configuration
        for agent in configuration.agent_ids:
            self._agents.value(agent)
        for tool in configured_tools(configuration):
            self._tools.value(tool)
        self._create_children()

    # -- counting

    def _count_notes(self, notes: list[Note]) -> None:
        plain: dict[tuple[str, str, str, str, bool], int] = {}
        for kind, agent, tool, label, value, after, detail in notes:
            if detail is not None or kind in _VALUED:
                self._count_valued(kind, agent, label, value, detail)
            key = (kind, agent, tool, label, after)
            plain[key] = plain.get(key, 0) + 1
        per_agent: Tally[tuple[Counter, str]] = Tally()
        per_tool: Tally[tuple[Counter, str]] = Tally()
        for (what, agent, tool, label, after), number in plain.items():
            if what == "call":
                self._calls.labels(_BOOLEAN[after]).inc(number)
                per_agent[self._agent_calls, agent] += number
                per_tool[self._tool_calls, tool] += number
            elif what == "barren":
                per_agent[self._agent_barren, agent] += number
                per_tool[self._tool_barren, tool] += number
            elif what == "refused":
                per_agent[self._agent_refused, agent] += number
                per_tool[self._tool_refused, tool] += number
            elif what == "went_on":
                self._went_on.labels(self._agent(agent), label).inc(number)
            elif what == "run_ended":
                outcome = (label if label in OUTCOMES else OTHER) if label else NONE
                self._runs_ended.labels(outcome).inc(number)
            elif what == "run_expired":
                self._runs_ended.labels("expired").inc(number)
            elif what == "run_started":
                self._runs_started.inc(number)
            elif what == "run_released":
                self._runs_released.inc(number)
            elif what == "duplicate":
                self._duplicates.inc(number)
            elif what == "ack":
                self._acks.labels(label).inc(number)
        for (counter, agent), number in per_agent.items():
            counter.labels(self._agent(agent)).inc(number)
        for (counter, tool), number in per_tool.items():
            counter.labels(self._tool(tool)).inc(number)

    def _count_valued(self, kind: str, agent: str, label: str, value: int, detail: object) -> None:
        if kind == "usage" and isinstance(detail, Usage):
            self._spend(self._tokens, self._cost, agent, detail)
            if label == "critical":
                self._spend(self._critical_tokens, self._critical_cost, agent, detail)
        elif kind == "barren" and isinstance(detail, Usage):
            self._spend(self._barren_tokens, self._barren_cost, agent, detail)
        elif kind == "publisher" and isinstance(detail, PublisherStats):
            self._runner_dropped.inc(detail.dropped)
            self._runner_queue.observe(detail.queue_high)
            self._runner_publish.observe(detail.publish_ms / 1000)
        elif kind == "ack" and value >= 0:
            self._ack_seconds.observe(value / 1000)
        elif kind == "halted":
            self._halt_seconds.observe(value / 1000)
        elif kind == "seq_gap":
            self._gaps.inc(value)

    def _spend(self, tokens: Counter, cost: Counter, agent: str, usage: Usage) -> None:
        name = self._agent(agent)
        tokens.labels(name, "in").inc(usage.tokens_in)
        tokens.labels(name, "out").inc(usage.tokens_out)
        cost.labels(name).inc(usage.cost)

    def _count_verdicts(self, batch: Batch, now_ms: int) -> None:
        by_rule: Tally[tuple[str, str, str, str, str]] = Tally()
        by_agent: Tally[tuple[str, str, str]] = Tally()
        by_tool: Tally[tuple[str, str]] = Tally()
        for _, verdict in batch.verdicts:
            rule = verdict.detector or NONE
            after = _BOOLEAN[verdict.after_compaction]
            by_rule[verdict.level, rule, verdict.action, verdict.stage, after] += 1
            if verdict.stage == "final" and verdict.level != "none":
                by_agent[verdict.agent_id or "", rule, verdict.level] += 1
                by_tool[verdict.tool or "", verdict.level] += 1
        for labels, number in by_rule.items():
            self._verdicts.labels(*labels).inc(number)
        for (agent, rule, level), number in by_agent.items():
            self._agent_loops.labels(self._agent(agent), rule, level).inc(number)
        for (tool, level), number in by_tool.items():
            self._tool_loops.labels(self._tool(tool), level).inc(number)
        observe = self._verdict_seconds.observe
        for caused in batch.verdict_times:
            # The broker's clock may be ahead of ours.
            observe(max(0, now_ms - caused) / 1000)

    # -- label values

    def _agent(self, agent: str) -> str:
        name = self._agents.value(agent)
        if name not in self._known_agents:
            self._create_agent(name, agent)
        return name

    def _tool(self, tool: str) -> str:
        name = self._tools.value(tool)
        if name not in self._known_tools:
            self._create_tool(name)
        return name

    def _create_children(self) -> None:
        """Makes every series whose labels are known, so that ``rate()`` sees the first increment."""
        configuration = self._configuration
        self._configuration_info.clear()
        self._configuration_info.labels(configuration.version).set(1)
        for kind in EVENT_TYPES:
            self._events.labels(kind)
        for pair in REJECTIONS:
            self._rejected.labels(*pair)
        for result in _RESULTS:
            self._acks.labels(result)
        for outcome in OUTCOMES:
            self._runs_ended.labels(outcome)
        for table in _TABLES:
            self._changelog_bytes.labels(table)
            self._changelog_rows.labels(table)
        for after in _BOOLEAN:
            self._calls.labels(after)
            for stage in ("forecast", "final"):
                self._verdicts.labels("none", NONE, "allow", stage, after)
                for rule, level, action in dict.fromkeys(
                    entry for agent in [None, *configuration.agent_ids] for entry in self._rules(agent)
                ):
                    self._verdicts.labels(level, rule, action, stage, after)
        for agent in [NONE, OTHER, *configuration.agent_ids]:
            name = agent if agent in (NONE, OTHER) else self._agents.value(agent)
            self._create_agent(name, agent)
        for tool in list(self._tools.values):
            self._create_tool(tool)

    def _rules(self, agent: str | None) -> tuple[tuple[str, str, str], ...]:
        progress = self._configuration.settings_for(agent).profile == "progress"
        return PROGRESS_RULES if progress else DOCUMENTED_RULES

    def _create_agent(self, name: str, agent: str) -> None:
        self._known_agents.add(name)
        for counter in (
            self._agent_calls,
            self._agent_barren,
            self._agent_refused,
            self._cost,
            self._barren_cost,
            self._critical_cost,
        ):
            counter.labels(name)
        for mode in ("enforce", "observe"):
            self._went_on.labels(name, mode)
        for counter in (self._tokens, self._barren_tokens, self._critical_tokens):
            counter.labels(name, "in")
            counter.labels(name, "out")
        for rule, level, _ in self._rules(agent):
            self._agent_loops.labels(name, rule, level)

    def _create_tool(self, name: str) -> None:
        self._known_tools.add(name)
        for counter in (self._tool_calls, self._tool_barren, self._tool_refused):
            counter.labels(name)
        for level in ("warning", "critical"):
            self._tool_loops.labels(name, level)

    # -- making them

    def _counter(self, definition: Definition) -> Counter:
        return Counter(definition.name, definition.meaning, definition.labels, registry=self.registry)

    def _gauge(self, definition: Definition) -> Gauge:
        return Gauge(definition.name, definition.meaning, definition.labels, registry=self.registry)

    def _histogram(self, definition: Definition) -> Histogram:
        return Histogram(
            definition.name, definition.meaning, definition.labels, buckets=definition.buckets, registry=self.registry
        )


def _version() -> str:
    try:
        return version("loopwarden")
    except PackageNotFoundError:
        return "unknown"
