"""The parameters of profile ``progress``: checked, merged, defaulted."""

from __future__ import annotations

from typing import Any

import pytest

from loopwarden_schemas.configuration import Configuration
from loopwarden_schemas.errors import ConfigurationError


def configured(top: dict[str, Any], own: dict[str, Any] | None = None) -> Configuration:
    agents = {} if own is None else {"a": {"progress": own}}
    return Configuration({"loopwarden": {"progress": top, "agents": agents}}, source="f.yaml")


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ({"repeat": 1.3}, "f.yaml: loopwarden.progress.repeat: Input should be a multiple of 0.25, got 1.3"),
        ({"repeat": None}, "f.yaml: loopwarden.progress.repeat: Input should not be null"),
        ({"repeat": True}, "f.yaml: loopwarden.progress.repeat: Input should be a number, got True"),
        ({"memory": 49}, "f.yaml: loopwarden.progress.memory: Input should be less than or equal to 48, got 49"),
        ({"guard": 0}, "f.yaml: loopwarden.progress.guard: Input should be greater than or equal to 1, got 0"),
        ({"nope": 1}, "f.yaml: loopwarden.progress.nope: is unknown here, got 1"),
        ({"warning": 6, "critical": 6}, "f.yaml: loopwarden.progress: critical should be above warning, got 6 and 6"),
    ],
)
def test_wrong_parameter_is_named(block: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        configured(block)
    assert caught.value.problems[0].startswith(problem)


def test_agent_wins_parameter_by_parameter() -> None:
    settings = configured({"repeat": 1.25, "pause_s": 30}, {"pauseS": 0.5}).settings_for("a").progress
    assert (settings.repeat, settings.pause_ms, settings.fault) == (5, 500, 16)


def test_merged_blocks_must_not_contradict() -> None:
    with pytest.raises(ConfigurationError, match=r"loopwarden\.agents\.a\.progress: critical should be above warning"):
        configured({"critical": 12}, {"warning": 15})


def test_text_of_a_configuration_reads_back() -> None:
    configuration = configured({"repeat": 1.25, "memory": 6.0})
    again = Configuration.from_text(configuration.text)
    assert again.version == configuration.version
    assert again.settings_for(None).progress == configuration.settings_for(None).progress
