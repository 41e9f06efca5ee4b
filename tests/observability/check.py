"""Runs every query of the dashboards against a Prometheus, the way Grafana would."""

from __future__ import annotations

import asyncio
import json
import re
import time
from typing import Any

from grafana.build import DASHBOARDS
from tests.observability.expected import Expectation
from tests.observability.load import PerTick
from tests.observability.prometheus import Prometheus

__all__ = ["boards", "check_panels", "check_raw", "check_variables", "legend_of", "substitute"]

RATE_INTERVAL_S = 10
RANGE_S = 10
_VARIABLES = {"job": ".+", "agent": ".+", "tool": ".+"}
"""What All comes to: the variables' allValue."""
_ANNOTATIONS = {"Configuration changed", "Rebalance"}


def boards() -> dict[str, dict[str, Any]]:
    """The checked-in dashboards."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(DASHBOARDS.glob("*.json"))}


def substitute(expr: str) -> str:
    """Grafana's macros and variables, with All chosen."""
    expr = expr.replace("$__rate_interval", f"{RATE_INTERVAL_S}s").replace("$__range", f"{RANGE_S}s")
    for name, value in _VARIABLES.items():
        expr = expr.replace(f"${name}", value)
    assert "$" not in expr, expr
    return expr


def legend_of(target: dict[str, Any], labels: dict[str, str]) -> str:
    """What Grafana calls a series; empty where the panel has but one, or one a worker."""
    legend = target["legendFormat"]
    if legend in ("__auto", "{{instance}}"):
        return ""
    return re.sub(r"{{(\w+)}}", lambda match: labels.get(match[1], ""), legend)


async def check_panels(
    server: Prometheus, at: float, wanted: dict[str, dict[str, Expectation]], *, annotations: set[str] = _ANNOTATIONS
) -> list[str]:
    """What is wrong: panels without data, series too many or too few, values that are not as expected."""
    problems = []
    seen = set()
    for name, board in boards().items():
        for panel in board["panels"]:
            if panel["type"] == "row":
                continue
            title = panel["title"]
            seen.add(title)
            got: dict[str, float] = {}
            for target in panel["targets"]:
                series = await server.query(substitute(target["expr"]), at)
                if not series:
                    problems.append(f"{name}, {title}: no data for {substitute(target['expr'])}")
                got |= {legend_of(target, labels): value for labels, value in series}
            expectations = wanted.get(title, {})
            if set(got) != set(expectations):
                problems.append(f"{name}, {title}: series {sorted(got)}, expected {sorted(expectations)}")
            problems += [
                f"{name}, {title}, {legend}: {got[legend]}, expected {expectation}"
                for legend, expectation in expectations.items()
                if legend in got and not expectation.accepts(got[legend])
            ]
        for annotation in board["annotations"]["list"]:
            if bool(await server.query(substitute(annotation["expr"]), at)) != (annotation["name"] in annotations):
                problems.append(f"{name}: wrong: annotation {annotation['name']}")
    if unknown := set(wanted) - seen:
        problems.append(f"no such panels: {sorted(unknown)}")
    return problems


async def check_variables(server: Prometheus, wanted: dict[str, set[str]]) -> list[str]:
    """What is wrong with the choices that the variables offer."""
    problems = []
    for name, board in boards().items():
        for variable in board["templating"]["list"]:
            if variable["type"] != "query":
                continue
            match = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"])
            assert match is not None, variable["query"]
            values = set(await server.label_values(substitute(match[1]), match[2]))
            if values != wanted[variable["name"]]:
                problems.append(f"{name}, ${variable['name']}: {sorted(values)}")
    return problems


async def check_raw(server: Prometheus, per_tick: PerTick, ticks: int) -> None:
    """Waits until the counters are what that many ticks come to, exactly."""
    wanted = {
        'sum(loopwarden_events_total)': sum(per_tick.types().values()),
        'sum(loopwarden_agent_calls_total)': sum(per_tick.calls("tool").values()),
        'sum(loopwarden_tool_calls_total{tool="search"})': per_tick.calls("tool")["search"],
        'sum(loopwarden_agent_loops_total)': len(per_tick.loops),
        'sum(loopwarden_verdicts_total)': len(per_tick.verdicts),
        'loopwarden_event_to_verdict_seconds_count': len(per_tick.verdicts),
        'sum(loopwarden_agent_cost_micros_total)': 8 * 4000,
        'loopwarden_events_rejected_total{reason="not_json"}': 1,
        'loopwarden_events_duplicate_total': 1,
        'loopwarden_runner_dropped_events_total': 2,
    }  # fmt: skip
    got: dict[str, float] = {}
    async with asyncio.timeout(15):
        while got != {expr: ticks * number for expr, number in wanted.items()}:
            await asyncio.sleep(0.5)
            got = {expr: (await server.query(expr, time.time()))[0][1] for expr in wanted}
