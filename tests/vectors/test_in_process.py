"""The calls of every documented vector, through the runner library's twin in the process: the same decisions."""

from __future__ import annotations

from typing import Any, Literal
from unittest.mock import ANY

import pytest
from msgspec import UNSET

from loopwarden.runner import Decision, LoopWarden, Run
from loopwarden_schemas.configuration import Configuration
from loopwarden_schemas.events import ToolResult
from loopwarden_schemas.facts import reduce_content
from tests.vectors.files import Case, cases
from tests.vectors.test_documented import lenient

SALT = b"of this deployment"


class Player:
    """Plays a vector: what a runner does through the library; what no library would publish, straight into the bus."""

    def __init__(self, vector: dict[str, Any], content: Literal["fingerprint", "raw"]) -> None:
        block = lenient(vector["config"]).model_dump(by_alias=True, exclude_none=True)
        configuration = Configuration.from_block(block, mode=vector["mode"], ignoredAfter=0)
        self.warden = LoopWarden.in_process(configuration, content=content, salt=SALT)
        self.open: dict[tuple[str, str], tuple[str, Any]] = {}
        self.refused: dict[tuple[str, str | None, str], Decision] = {}

    def run_of(self, event: dict[str, Any]) -> Run:
        return self.warden.run(event["run_id"])

    def call(self, event: dict[str, Any]) -> Decision:
        run_id, tool, args, call_id = event["run_id"], event["tool"], event.get("args", UNSET), event.get("call_id")
        decision = self.run_of(event).before_call(tool, args, call_id=call_id)
        if decision.refused:
            self.refused[run_id, call_id, tool] = decision
        elif call_id:
            self.open[run_id, call_id] = (tool, args)
        return decision

    def result(self, event: dict[str, Any]) -> None:
        run_id, tool, args, call_id = event["run_id"], event["tool"], event.get("args", UNSET), event.get("call_id")
        content = {name: event[name] for name in ("result", "error") if name in event}
        if (refused := self.refused.pop((run_id, call_id, tool), None)) is not None:
            self.run_of(event).after_call(refused, **content)  # what was shown instead: is not published
        elif call_id and self.open.get((run_id, call_id)) == (tool, args):
            del self.open[run_id, call_id]
            self.run_of(event).after_call(call_id, **content)
        elif not call_id:
            self.run_of(event).after_call(None, tool=tool, args=args, **content)
        else:
            # Another tool or other arguments than the call of that id had, or its result a second time.
            facts = reduce_content(tool, args, **content, salt=SALT)
            self.warden._host.publish(ToolResult(run_id=run_id, tool=tool, call_id=call_id, facts=facts))


@pytest.mark.parametrize("content", ["fingerprint", "raw"])
@pytest.mark.parametrize("case", cases("documented", "random", "guard"), ids=str)
def test_vector(case: Case, content: Literal["fingerprint", "raw"]) -> None:
    vector = case.vector
    player = Player(vector, content)
    observed_aborts: set[str] = set()
    for index, (event, expected) in enumerate(zip(vector["events"], vector["expected"], strict=True)):
        place = f"{case.file} {vector['name']}, event {index} {event}"
        if event["type"] == "tool_call":
            decision = player.call(event)
            if event["run_id"] in observed_aborts:
                observed_aborts.remove(event["run_id"])
                assert shown(decision) == ("abort", "compaction_loop_persisted", ANY), place
                continue
            assert shown(decision) == wanted(expected), place
            assert decision.action == (decision.asked if vector["mode"] == "enforce" else "allow"), place
        elif event["type"] == "tool_result":
            player.result(event)
            if (expected.get("guard") or {}).get("abort_count"):
                assert player.run_of(event).aborted == (vector["mode"] == "enforce"), place
                if vector["mode"] == "enforce":
                    return  # a real run ends there
                observed_aborts.add(event["run_id"])  # told with the next call, which runs all the same
        else:
            player.run_of(event).compacted()
    assert not player.warden.stats.failures
    assert not player.warden.stats.dropped


def shown(decision: Decision) -> tuple[str, str | None, int]:
    return decision.asked, decision.detector, decision.count


def wanted(expected: dict[str, Any] | None) -> tuple[str, str | None, int]:
    """What was judged; a warning that the de-duplication held back is none."""
    if expected is None or not expected["emitted"]:
        return "allow", None, 0
    action = "warn" if expected["level"] == "warning" else "block"
    return action, expected["detector"], expected["count"]
