"""Every vector of the documented configuration: 48 blocks, 28 merges (see FORMAT.md)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopwarden_schemas.configuration import Configuration, DocumentedSettings
from loopwarden_schemas.errors import ConfigurationError
from tests.vectors.files import DATA

VECTORS = json.loads((DATA / "vectors" / "config.json").read_text())


def shown(settings: DocumentedSettings) -> dict[str, Any]:
    return {
        "enabled": settings.enabled,
        "historySize": settings.history_size,
        "warningThreshold": settings.warning,
        "unknownToolThreshold": settings.unknown_tool,
        "criticalThreshold": settings.critical,
        "globalCircuitBreakerThreshold": settings.circuit_breaker,
        "detectors": {
            "genericRepeat": settings.generic_repeat,
            "knownPollNoProgress": settings.known_poll,
            "pingPong": settings.ping_pong,
        },
    }


def document(block: Any, *, absent: bool) -> dict[str, Any]:
    return {} if absent else {"tools": {"loopDetection": block}}


@pytest.mark.parametrize("case", [case for case in VECTORS["singles"] if case["valid"]], ids=json.dumps)
def test_valid_block(case: dict[str, Any]) -> None:
    configuration = Configuration(document(case.get("config"), absent=case.get("absent", False)))
    assert shown(configuration.settings_for("any").documented) == case["resolved"]
    assert [raised.field for _, raised in configuration.raised()] == case["raised"]


@pytest.mark.parametrize("case", [case for case in VECTORS["singles"] if not case["valid"]], ids=json.dumps)
def test_invalid_block(case: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Configuration(document(case["config"], absent=False), source="openclaw.json")
    for problem, path in zip(caught.value.problems, case["errorPaths"], strict=True):
        prefix = "openclaw.json: tools.loopDetection"
        assert problem.startswith(prefix if path == "(root)" else f"{prefix}.{path}"), problem


@pytest.mark.parametrize("case", VECTORS["merges"], ids=json.dumps)
def test_merge(case: dict[str, Any]) -> None:
    entry: dict[str, Any] = {"id": "a"}
    if case["agent"] is not None:
        entry["tools"] = {"loopDetection": case["agent"]}
    configuration = Configuration(
        {**document(case["global"], absent=case["global"] is None), "agents": {"list": [entry]}}
    )
    block = configuration.block_for("a")
    assert (None if block is None else block.model_dump(by_alias=True, exclude_none=True)) == case["effective"]
    settings = configuration.settings_for("a").documented
    assert shown(settings) == case["resolved"]
    assert settings.guard == case["guardEnabled"]
    assert [raised.field for agent, raised in configuration.raised() if agent == "a"] == case["raised"] or (
        case["agent"] is None
    )
    assert Configuration.from_text(configuration.text).version == configuration.version
