"""What every panel must show under the load: title, series (by its legend), and value; 5 % for rates."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from loopwarden.processor import metric_definitions as define
from loopwarden.processor.metric_labels import DOCUMENTED_RULES, OUTCOMES
from tests.observability.load import PerTick

__all__ = ["Exactly", "Roughly", "Within", "expected", "quantile"]


@dataclass(frozen=True)
class Roughly:
    """Within five per cent."""

    value: float

    def accepts(self, got: float) -> bool:
        """Whether a value fits."""
        return abs(got - self.value) <= 0.05 * abs(self.value) + 1e-9


@dataclass(frozen=True)
class Exactly:
    """This value."""

    value: float

    def accepts(self, got: float) -> bool:
        """Whether a value fits."""
        return got == self.value


@dataclass(frozen=True)
class Within:
    """Anything between: what a machine's speed decides."""

    low: float
    high: float

    def accepts(self, got: float) -> bool:
        """Whether a value fits."""
        return self.low <= got <= self.high


Expectation = Roughly | Exactly | Within


def quantile(share: float, bounds: Sequence[float], values: Sequence[float]) -> float:
    """What Prometheus's ``histogram_quantile`` makes of some observations."""
    counts = [0] * (len(bounds) + 1)
    for value in values:
        counts[bisect_left(bounds, value)] += 1
    rank, below = share * len(values), 0
    for index, count in enumerate(counts[:-1]):
        if below + count >= rank:
            low = bounds[index - 1] if index else 0.0
            return low + (bounds[index] - low) * ((rank - below) / count if count else 0.0)
        below += count
    return bounds[-1]


def expected(
    per_tick: PerTick,
    *,
    ticks_per_s: float,
    range_s: float,
    gauges: dict[str, Expectation],
    worker: dict[str, dict[str, Expectation]],
) -> dict[str, dict[str, Expectation]]:
    """Panel title to legend to what it must show.

    Args:
        per_tick: What one tick comes to.
        ticks_per_s: Ticks per second.
        range_s: What ``$__range`` stands for, in seconds.
        gauges: ``live runs`` and ``armed guards`` at the end.
        worker: Panels that depend on how the worker works, not on the load.
    """

    def rate(number: float) -> Roughly:
        return Roughly(number * ticks_per_s)

    def total(number: float) -> Roughly:
        return Roughly(number * ticks_per_s * range_s)

    calls = sum(per_tick.calls("run_id").values())
    loops = per_tick.loops
    critical = [verdict for verdict in loops if verdict.level == "critical"]
    after = [verdict for verdict in critical if verdict.after_compaction]
    agents, tools = per_tick.calls("agent_id"), per_tick.calls("tool")
    agent_loops, tool_loops = per_tick.loops_by(lambda one: one.agent_id), per_tick.loops_by(lambda one: one.tool)
    by_agent: dict[str, Expectation] = {name: Roughly(1000 * agent_loops[name] / n) for name, n in agents.items()}
    by_tool: dict[str, Expectation] = {name: Roughly(1000 * tool_loops[name] / n) for name, n in tools.items()}
    rules = per_tick.loops_by(lambda one: one.detector)
    spoken = [verdict for verdict in per_tick.verdicts if verdict.level != "none"]
    refused = sum(event["type"] == "call_refused" for event in per_tick.events)
    went_on = per_tick.notes("went_on")
    acks = [event["result"] for event in per_tick.events if event["type"] == "verdict_ack"]
    halts = [note.value / 1000 for note in per_tick.notes("halted")]
    acted = [event["after_ms"] / 1000 for event in per_tick.events if event["type"] == "verdict_ack"]
    ended = [event["outcome"] for event in per_tick.events if event["type"] == "run_ended"]
    barren = per_tick.notes("barren")
    all_spent, in_vain, late = per_tick.spent("usage"), per_tick.spent("barren"), per_tick.spent("usage", "critical")
    spent = {"all": all_spent, "brought nothing": in_vain, "after a critical verdict": late}
    calls_after = sum(note.after_compaction for note in per_tick.notes("call"))
    loops_after = sum(verdict.after_compaction for verdict in loops)
    reports = [event["publisher"] for event in per_tick.events if "publisher" in event]
    types = per_tick.types()
    one = {"p50": 0.5, "p95": 0.95, "p99": 0.99}

    def quantiles(definition: define.Definition, values: Sequence[float], *names: str) -> dict[str, Expectation]:
        return {name: Roughly(quantile(one[name], definition.buckets, values)) for name in names}

    return {
        # -- Loops
        "Loop rate": {"": Roughly(1000 * len(loops) / calls)},
        "Calls": {"": rate(calls)},
        "Live runs": {"": gauges["live runs"]},
        "Critical verdicts": {"": total(len(critical))},
        "Calls refused": {"": total(refused)},
        "Loops after a compaction": {"": total(len(after))},
        "Loop rate by agent": by_agent,
        "Loop rate by tool": by_tool,
        "Loop rate of the fleet": {name: Roughly(1000 * len(loops) / calls) for name in ("1m", "5m", "60m")},
        "Agents that loop most": by_agent,
        "Tools that are looped on most": by_tool,
        "Calls by agent": {name: rate(agents[name]) for name in [*agents, "none", "other"]},
        "Loops by rule": {rule: rate(rules[rule]) for rule, _, _ in DOCUMENTED_RULES},
        "Verdicts by level and stage": {
            f"{level}, {stage}": rate(sum((v.level, v.stage) == (level, stage) for v in spoken))
            for level in ("warning", "critical")
            for stage in ("forecast", "final")
        },
        "Before and after a compaction": {
            "after a compaction: true": Roughly(1000 * loops_after / calls_after),
            "after a compaction: false": Roughly(1000 * (len(loops) - loops_after) / (calls - calls_after)),
        },
        "Refused, and not stopped": {
            "refused": rate(refused),
            "ran on, mode enforce": rate(len(went_on)),
            "ran on, mode observe": Exactly(0),
        },
        "Actions asked for": {
            action: rate(sum(v.action == action for v in loops)) for action in ("warn", "block", "abort")
        },
        "What runners say they did": {
            result: rate(acks.count(result)) for result in ("applied", "ignored", "late", "unsupported")
        },
        "Time to halt": quantiles(define.HALT_SECONDS, halts, "p50", "p95"),
        "From verdict to act": quantiles(define.ACK_SECONDS, acted, "p50", "p95"),
        "Runs ended": {outcome: rate(ended.count(outcome)) for outcome in OUTCOMES},
        "Tokens": {name: rate(usage.tokens_in + usage.tokens_out) for name, usage in spent.items()},
        "Money per hour": {name: Roughly(3600 * ticks_per_s * usage.cost / 1e6) for name, usage in spent.items()},
        "Calls that brought nothing, by tool": {
            name: rate(sum(note.tool == name for note in barren)) for name in [*tools, "none", "other"]
        },
        # -- Worker
        "Events": {"": rate(sum(types.values()))},
        "Events by type": {kind: rate(number) for kind, number in types.items()},
        "Rejected, duplicate, missing": {
            "message not_json": rate(1),
            "type unknown_type": rate(1),
            "duplicate": rate(1),
            "missing": rate(3),
        },
        "Runs and armed guards": {"live runs": gauges["live runs"], "armed guards": gauges["armed guards"]},
        "Events that runners dropped": {"dropped": rate(sum(report["dropped"] for report in reports))},
        "Runners' queues": quantiles(define.RUNNER_QUEUE, [report["queue_high"] for report in reports], "p99"),
        "Runners' publish time": quantiles(
            define.RUNNER_PUBLISH, [report["publish_ms"] / 1000 for report in reports], "p50", "p99"
        ),
        "Memory": {"": Within(10e6, 2e9)},
        "Processor": {"": Within(0.0, 4.0)},
        **worker,
    }
