"""Prometheus's configuration and rules, checked and run by promtool; every metric that a rule names exists."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from loopwarden.processor.metric_definitions import DEFINITIONS

ROOT = Path(__file__).parents[3] / "docker" / "prometheus"
RUNBOOK = ROOT.parent / "README.md"
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="no promtool here: apt-get install --no-install-recommends prometheus"
)
RULES = [
    rule
    for path in sorted((ROOT / "rules").glob("*.yml"))
    for group in yaml.safe_load(path.read_text())["groups"]
    for rule in group["rules"]
]
ALERTS = [rule for rule in RULES if "alert" in rule]


def promtool(*arguments: str, folder: Path) -> str:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *arguments], cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_promtool
def test_configuration_is_valid() -> None:
    assert "SUCCESS" in promtool("check", "config", "prometheus.yml", folder=ROOT)


@needs_promtool
@pytest.mark.parametrize("path", sorted((ROOT / "tests").glob("*_test.yml")), ids=lambda path: path.name)
def test_rules(path: Path) -> None:
    promtool("test", "rules", path.name, folder=path.parent)


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_alert_is_complete(rule: dict[str, object]) -> None:
    """A summary, a runbook section that exists, a case that fires and one that must not."""
    annotations, labels = rule["annotations"], rule["labels"]
    assert isinstance(annotations, dict)
    assert isinstance(labels, dict)
    assert annotations["summary"]
    assert labels["severity"] in ("warning", "critical")
    name = str(rule["alert"])
    assert annotations["runbook_url"] == f"docker/README.md#{name.lower()}"
    assert f"### {name}\n" in RUNBOOK.read_text()
    cases = yaml.safe_load((ROOT / "tests" / "alerts_test.yml").read_text())["tests"]
    mine = [(case, test) for case in cases for test in case["alert_rule_test"] if test["alertname"] == name]
    assert any(test["exp_alerts"] for _, test in mine), "no case that fires"
    # One series that fires among others that must not, or a time at which nothing does.
    assert any(not test["exp_alerts"] or len(test["exp_alerts"]) < len(case["input_series"]) for case, test in mine)


def test_rules_name_metrics_that_exist() -> None:
    known = {name for one in DEFINITIONS for name in _series(one.name, one.kind)}
    known |= {str(rule["record"]) for rule in RULES if "record" in rule} | {"up"}
    for rule in RULES:
        expression = re.sub(r"#.*", "", str(rule["expr"]))
        for name in re.findall(r"[a-z_]+:loopwarden[\w:]*|loopwarden_\w+", expression):
            assert name in known, f"{rule.get('alert') or rule.get('record')} asks for {name}"


def _series(name: str, kind: str) -> list[str]:
    return [f"{name}_bucket", f"{name}_sum", f"{name}_count"] if kind == "histogram" else [name]
