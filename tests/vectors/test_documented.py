"""Every vector of the documented profile: 145 named, 300 random, 120 rich in compactions (see FORMAT.md)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopwarden.detection.documented import DocumentedProfile
from loopwarden.detection.profile import Position
from loopwarden_schemas.codec import decode_event
from loopwarden_schemas.configuration import AgentSettings, LoopDetection, resolve
from loopwarden_schemas.events import Compaction, ToolCall, ToolResult
from loopwarden_schemas.facts import Facts, reduce_event
from tests.vectors.files import Case, cases

PROFILE = DocumentedProfile()


def lenient(config: dict[str, Any]) -> LoopDetection:
    """A block as the documented runtime takes it: what is wrong falls back to the default (rule 1)."""

    def positive(value: object) -> int | None:
        whole = isinstance(value, int | float) and not isinstance(value, bool) and value == int(value)
        return int(value) if whole and value >= 1 else None  # type: ignore[call-overload,operator]

    numbers = "historySize warningThreshold criticalThreshold unknownToolThreshold globalCircuitBreakerThreshold"
    block: dict[str, Any] = {name: positive(config.get(name)) for name in numbers.split()}
    block["enabled"] = config.get("enabled")
    block["detectors"] = {key: value for key, value in (config.get("detectors") or {}).items() if value is not None}
    block["postCompactionGuard"] = {"windowSize": positive((config.get("postCompactionGuard") or {}).get("windowSize"))}
    guard = {key: value for key, value in block.pop("postCompactionGuard").items() if value is not None}
    cleaned = {key: value for key, value in block.items() if value is not None}
    return LoopDetection.model_validate({**cleaned, "postCompactionGuard": guard})


@pytest.mark.parametrize("case", cases("documented", "random", "guard"), ids=str)
def test_vector(case: Case, through_facts: bool) -> None:
    vector = case.vector
    mode = vector["mode"]
    settings = AgentSettings(mode=mode, documented=resolve(lenient(vector["config"]), mode)[0], ignored_after=0)
    bodies: dict[str, Any] = {}
    classes: dict[str, int] = {}
    for index, (raw, expected) in enumerate(zip(vector["events"], vector["expected"], strict=True)):
        event = decode_event(json.dumps(raw).encode())
        body = bodies.setdefault(event.run_id, PROFILE.new())
        at = Position("t", 0, index, 0, 0)
        got: dict[str, Any] | None
        if isinstance(event, ToolCall):
            got = judged(PROFILE.on_call(body, event, facts_of(event, through_facts), at, settings))
        elif isinstance(event, ToolResult):
            facts = facts_of(event, through_facts)
            view = PROFILE.on_result(body, event, facts, at, settings)
            got = {"recorded": view.recorded}
            if view.recorded:
                got |= {"matched": view.matched, "outcome": classes.setdefault(str(facts.outcome_fp), len(classes))}
                if facts.unknown_tool:
                    got["unknown_tool"] = facts.unknown_tool
                if body.guard or view.judgements:
                    got["guard"] = {"remaining": body.guard.remaining if body.guard else 0}
                    if view.judgements:
                        got["guard"]["abort_count"] = view.judgements[0].count
        else:
            assert isinstance(event, Compaction)
            PROFILE.on_compaction(body, event, at, settings)
            got = {"armed": body.guard is not None}
        bodies[event.run_id] = PROFILE.decode(*PROFILE.encode(body))
        if got != expected:
            pytest.fail(f"{case.file} {vector['name']}, event {index} {raw}\nexpected {expected}\n     got {got}")


def judged(judgements: list[Any]) -> dict[str, Any] | None:
    if not judgements:
        return None
    (judgement,) = judgements
    got = {
        "level": judgement.level,
        "detector": judgement.detector,
        "count": judgement.count,
        "emitted": judgement.emit,
    }
    return got | ({"paired_tool": judgement.paired_tool} if judgement.paired_tool else {})


def facts_of(event: ToolCall | ToolResult, salted: bool) -> Facts:
    """Facts as the worker reduces them, or as a content-free runner with a salt of its own publishes them."""
    if not salted:
        return reduce_event(event)
    from msgspec import UNSET, Raw
    from msgspec.json import decode

    from loopwarden_schemas.facts import reduce_content

    content = {
        name: decode(raw) for name in ("args", "result", "error") if isinstance(raw := getattr(event, name, UNSET), Raw)
    }
    return reduce_content(event.tool, **content, salt=b"of this deployment")


@pytest.fixture(params=[False, True], ids=["raw", "salted"])
def through_facts(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)
