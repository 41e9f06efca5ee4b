"""Every rule that a verdict can name has words."""

from __future__ import annotations

import pytest

from loopwarden.processor.metric_labels import DOCUMENTED_RULES, PROGRESS_RULES
from loopwarden.processor.web.rules import rule_in_words
from loopwarden_schemas.configuration import Configuration


@pytest.mark.parametrize(("rule", "level", "action"), [*DOCUMENTED_RULES, *PROGRESS_RULES])
def test_rule_has_words(rule: str, level: str, action: str) -> None:
    words = rule_in_words(rule, level, Configuration().settings_for(None))
    assert words.endswith(".")
    assert "{" not in words


def test_thresholds_are_those_in_force() -> None:
    block = {"enabled": True, "warningThreshold": 7, "criticalThreshold": 13, "postCompactionGuard": {"windowSize": 5}}
    settings = Configuration.from_block(block).settings_for("a")
    assert "7 times" in rule_in_words("generic_repeat", "warning", settings)
    assert "13 times" in rule_in_words("generic_repeat", "critical", settings)
    assert "first 5 results" in rule_in_words("compaction_loop_persisted", "critical", settings)
    assert rule_in_words("from_the_future", "critical", settings) == ""
