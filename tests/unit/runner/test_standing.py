"""Which entry of the standing applies to a call, and for how long."""

from __future__ import annotations

from typing import Any

import pytest

from loopwarden.runner.standing import Standing
from loopwarden_schemas.facts import Facts, reduce_content, signature
from loopwarden_schemas.verdicts import Cause, StandingEntry, Verdict

ARGS = {"path": "/a"}
FACTS = reduce_content("read", ARGS)
SIGNATURE = signature("read", FACTS.args_fp or "").hex()


def entry(scope: Any, key: str, action: Any = "block", message: str = "no") -> StandingEntry:
    return StandingEntry(scope=scope, key=key, level="critical", action=action, detector="rule", message=message)


def verdict(offset: int, standing: list[StandingEntry] | None, **fields: Any) -> Verdict:
    defaults: dict[str, Any] = {
        "id": f"v{offset}",
        "run_id": "r",
        "level": "critical",
        "action": "block",
        "scope": "call",
        "stage": "final" if standing is None else "forecast",
        "mode": "enforce",
        "profile": "documented",
        "cause": Cause("events", 0, offset),
        "config_version": "c",
        "ts": 0,
    }
    return Verdict(**{**defaults, "standing": standing, **fields})


def forecast(offset: int, *entries: StandingEntry, profile: str = "documented") -> Verdict:
    return verdict(offset, list(entries), profile=profile)


def action(standing: Standing, tool: str = "read", facts: Facts = FACTS) -> str | None:
    match = standing.match(tool, facts)
    return None if match is None else match.entry.action


def test_a_documented_call_is_known_by_tool_and_arguments() -> None:
    standing = Standing()
    standing.take(forecast(5, entry("call", SIGNATURE)), 0)
    assert action(standing) == "block"
    assert action(standing, "read", reduce_content("read", {"path": "/b"})) is None
    assert action(standing, "write", reduce_content("write", ARGS)) is None


def test_a_call_of_progress_is_known_by_its_own_fingerprint() -> None:
    standing = Standing()
    assert FACTS.call
    standing.take(forecast(5, entry("call", FACTS.call), profile="progress"), 0)
    assert action(standing) == "block"
    standing.take(forecast(6, entry("call", SIGNATURE), profile="progress"), 0)
    assert action(standing) is None


@pytest.mark.parametrize(
    ("scopes", "wins"),
    [
        (["tool", "call"], "call"),
        (["run", "tool"], "tool"),
        (["root", "run"], "run"),
        (["tool", "target", "run"], "target"),
    ],
)
def test_the_narrowest_entry_wins(scopes: list[str], wins: str) -> None:
    keys = {"call": FACTS.call, "target": FACTS.target, "tool": "read", "run": "r", "root": "top"}
    standing = Standing()
    standing.take(forecast(5, *(entry(s, keys[s] or "", message=s) for s in scopes), profile="progress"), 0)
    match = standing.match("read", FACTS)
    assert match is not None
    assert match.entry.scope == wins


def test_allow_exempts_a_known_call_from_a_refused_tool() -> None:
    standing = Standing()
    standing.take(forecast(5, entry("tool", "read"), entry("call", SIGNATURE, "allow")), 0)
    assert action(standing) == "allow"
    assert action(standing, "read", reduce_content("read", {"path": "/b"})) == "block"


def test_publishing_a_call_drops_what_was_said_of_single_calls_until_a_later_standing() -> None:
    standing = Standing()
    standing.take(forecast(5, entry("call", SIGNATURE), entry("tool", "write")), 0)
    standing.call_published()
    assert action(standing) is None
    assert action(standing, "write", reduce_content("write", {})) == "block"  # what covers a tool stays
    standing.take(forecast(7, entry("call", SIGNATURE)), 0)
    assert action(standing) is None  # it may be older than the call that is not acknowledged yet
    standing.call_acknowledged(6)
    assert action(standing) == "block"


def test_a_standing_from_before_the_last_call_says_nothing_of_single_calls() -> None:
    standing = Standing()
    standing.call_published()
    standing.take(forecast(5, entry("call", SIGNATURE)), 0)
    standing.call_acknowledged(6)
    assert action(standing) is None


def test_a_call_that_was_dropped_never_happened() -> None:
    standing = Standing()
    standing.take(forecast(5, entry("call", SIGNATURE)), 0)
    standing.call_published()
    standing.call_acknowledged(None)
    assert action(standing) == "block"


def test_an_older_standing_is_ignored_and_a_newer_one_replaces() -> None:
    standing = Standing()
    standing.take(forecast(9, entry("call", SIGNATURE)), 0)
    standing.take(forecast(8), 0)
    assert action(standing) == "block"
    standing.take(forecast(10), 0)
    assert action(standing) is None


def test_an_abort_holds_for_every_call_until_a_release() -> None:
    standing = Standing()
    standing.take(verdict(5, None, action="abort", scope="run", detector="compaction_loop_persisted"), 0)
    standing.take(forecast(5, entry("run", "r", "abort"), entry("call", SIGNATURE, "allow")), 0)
    assert action(standing) == "abort"
    standing.call_published()
    standing.call_acknowledged(6)
    assert action(standing) == "abort"
    standing.take(forecast(7), 0)
    assert action(standing) is None


def test_an_observed_abort_is_told_to_one_call() -> None:
    standing = Standing()
    standing.take(verdict(5, None, action="abort", scope="run", mode="observe"), 0)
    standing.take(forecast(6), 0)
    assert action(standing) == "abort"
    standing.call_published()
    assert action(standing) is None


def test_a_topic_made_anew_forgets_what_was_said_of_the_old_one() -> None:
    standing = Standing()
    standing.call_published()
    standing.call_acknowledged(1000)
    standing.take(forecast(1001, entry("tool", "read")), 0)
    standing.call_published()
    standing.call_acknowledged(3)
    assert action(standing) is None
    standing.take(forecast(4, entry("tool", "read")), 0)
    assert action(standing) == "block"
