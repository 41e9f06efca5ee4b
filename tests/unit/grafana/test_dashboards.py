"""The checked-in dashboards are what the code builds, complete, and ask only for what there is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from grafana.build import DASHBOARDS, build
from loopwarden.processor.metric_definitions import DEFINITIONS

ROOT = Path(__file__).parents[3]
BOARDS: dict[str, dict[str, Any]] = {path.name: json.loads(path.read_text()) for path in DASHBOARDS.glob("*.json")}
PANELS = [
    pytest.param(panel, id=f"{name}-{panel['title']}")
    for name, board in sorted(BOARDS.items())
    for panel in board["panels"]
    if panel["type"] != "row"
]
RECORDS = {
    rule["record"]
    for path in (ROOT / "docker" / "prometheus" / "rules").glob("*.yml")
    for group in yaml.safe_load(path.read_text())["groups"]
    for rule in group["rules"]
    if "record" in rule
}
LABELS = {
    f"{one.name}{suffix}": {*one.labels, "job", "instance", *(["le"] if suffix == "_bucket" else [])}
    for one in DEFINITIONS
    for suffix in (("_bucket", "_sum", "_count") if one.kind == "histogram" else ("",))
}
OF_THE_PROCESS = {"process_resident_memory_bytes", "process_cpu_seconds_total"}


def test_json_is_what_the_code_builds() -> None:
    assert {name: (DASHBOARDS / name).read_text(encoding="utf-8") for name in BOARDS} == build()


@pytest.mark.parametrize("panel", PANELS)
def test_panel_is_complete(panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert len(panel["description"]) > 10
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert panel["targets"]
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


@pytest.mark.parametrize("panel", PANELS)
def test_panel_asks_for_what_there_is(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        for name, matchers in re.findall(
            r"([a-z_]+:loopwarden[\w:]*|(?:loopwarden|process)_\w+)(?:{([^}]*)})?", target["expr"]
        ):
            assert 'job=~"$job"' in matchers, f"{name} is not limited to the job"
            if name in RECORDS or name in OF_THE_PROCESS:
                continue
            assert name in LABELS
            assert set(re.findall(r"(\w+)(?:=|!=)", matchers)) <= LABELS[name]
        for window in re.findall(r"\[([^\]]+)\]", target["expr"]):
            assert window in ("$__rate_interval", "$__range", "5m", "1m")


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS.keys())
def test_board(board: dict[str, Any]) -> None:
    assert board["uid"].startswith("loopwarden-")
    assert board["description"]
    assert {entry["name"] for entry in board["annotations"]["list"]} == {"Configuration changed", "Rebalance"}
    variables = {entry["name"]: entry for entry in board["templating"]["list"]}
    assert {"datasource", "job"} <= set(variables)
    assert all(entry["label"] and entry["description"] for entry in variables.values())
    used = set(re.findall(r"\$(\w+)", json.dumps(board["panels"]))) - {"__rate_interval", "__range"}
    assert used <= set(variables)
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    cells = [
        (x, y)
        for panel in board["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells), "panels overlap"
    assert max(x for x, _ in cells) < 24


def test_provisioning() -> None:
    folder = ROOT / "grafana" / "provisioning"
    datasource = yaml.safe_load((folder / "datasources" / "prometheus.yaml").read_text())["datasources"][0]
    prometheus = yaml.safe_load((ROOT / "docker" / "prometheus" / "prometheus.yml").read_text())
    assert datasource["type"] == "prometheus"
    assert datasource["jsonData"]["timeInterval"] == prometheus["global"]["scrape_interval"]
    provider = yaml.safe_load((folder / "dashboards" / "loopwarden.yaml").read_text())["providers"][0]
    assert provider["type"] == "file"
    assert provider["options"]["path"] == "/etc/grafana/dashboards"
