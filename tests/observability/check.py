"""Runs every query of the dashboards against a Prometheus, the way Grafana would."""

from __future__ import annotations

import json
import re
from typing import Any

from grafana.build import DASHBOARDS
from tests.observability.expected import Expectation
from tests.observability.prometheus import Prometheus

__all__ = ["boards", "check_panels", "check_variables", "legend_of", "substitute"]

RATE_INTERVAL_S = 10
RANGE_S = 10
_VARIABLES = {"job": ".+", "agent": ".+", "tool": ".+"}
"""What All comes to: the variables' allValue."""


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


async def check_panels(server: Prometheus, at: float, wanted: dict[str, dict[str, Expectation]]) -> list[str]:
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
            if not await server.query(substitute(annotation["expr"]), at):
                problems.append(f"{name}: no data for annotation {annotation['name']}")
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
