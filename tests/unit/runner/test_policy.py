"""What a runner makes of a finding: never more than is asked."""

from __future__ import annotations

from typing import Any

import pytest

from loopwarden.runner.policy import Policy, decide
from loopwarden_schemas.verdicts import StandingEntry


def asked(action: Any) -> StandingEntry:
    return StandingEntry(scope="call", key="k", level="critical", action=action, detector="d", message="m")


def broken(entry: StandingEntry) -> Any:
    raise RuntimeError


@pytest.mark.parametrize("action", ["warn", "block", "abort"])
def test_what_is_asked_is_done(action: Any) -> None:
    assert decide(asked(action), worker="enforce", runner="enforce", policy=Policy()) == (action, "applied")


@pytest.mark.parametrize(("worker", "runner"), [("observe", "enforce"), ("enforce", "observe"), ("observe", "observe")])
def test_observe_on_either_side_does_nothing(worker: Any, runner: Any) -> None:
    answer = decide(asked("abort"), worker=worker, runner=runner, policy=Policy())
    assert answer == ("allow", "ignored")


@pytest.mark.parametrize(
    ("policy", "action", "expected"),
    [
        (Policy(on_critical="warn"), "block", ("warn", "ignored")),
        (Policy(on_critical="allow"), "block", ("allow", "ignored")),
        (Policy(on_critical="allow"), "abort", ("abort", "applied")),
        (Policy(on_abort="warn"), "abort", ("warn", "ignored")),
        (Policy(on_warning="allow"), "warn", ("allow", "ignored")),
        (Policy(on_critical=lambda entry: "warn" if entry.detector == "d" else "obey"), "block", ("warn", "ignored")),
        (Policy(on_critical=broken), "block", ("block", "applied")),
        (Policy(on_warning="abort"), "warn", ("warn", "applied")),  # type: ignore[arg-type]
    ],
)
def test_policy_weakens_only(policy: Policy, action: Any, expected: tuple[str, str]) -> None:
    assert decide(asked(action), worker="enforce", runner="enforce", policy=policy) == expected


@pytest.mark.parametrize(
    ("supports", "action", "expected"),
    [
        (["warn", "block"], "abort", ("block", "unsupported")),
        (["warn"], "abort", ("allow", "unsupported")),
        (["block"], "warn", ("allow", "unsupported")),
        ([], "block", ("allow", "unsupported")),
    ],
)
def test_what_a_runner_cannot_do(supports: list[Any], action: Any, expected: tuple[str, str]) -> None:
    answer = decide(asked(action), worker="enforce", runner="enforce", policy=Policy(), supports=supports)
    assert answer == expected


def test_an_exemption_is_no_finding() -> None:
    assert decide(asked("allow"), worker="enforce", runner="enforce", policy=Policy()).action == "allow"
