"""A run through the library's twin in the process: what an agent sees, and what the worker is told."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from loopwarden.errors import UsageError
from loopwarden.runner import CallRefusedError, CompactionLoopPersisted, Decision, LoopWarden, Policy, Run, RunAborted
from loopwarden_schemas.codec import decode_event, encode_event
from loopwarden_schemas.configuration import Configuration
from loopwarden_schemas.events import CallRefused, Event, RunEnded, ToolCall, ToolResult, VerdictAck
from tests.brokers.plain_worker import STRICT


def warden(worker: str = "enforce", **options: Any) -> LoopWarden:
    return LoopWarden.in_process(Configuration.from_block(STRICT, mode=worker), **options)


def listened(client: LoopWarden) -> list[Event]:
    """Every event as the worker reads it."""
    events: list[Event] = []
    bus: Any = client._host.bus
    fold = bus._fold

    def listening(event: Event, on_offset: Any) -> None:
        events.append(decode_event(encode_event(event)))
        fold(event, on_offset)

    bus._fold = listening
    return events


def repeat(run: Run, times: int) -> list[Decision]:
    decisions = []
    for _ in range(times):
        decision = run.before_call("read", {"path": "/a"})
        decisions.append(decision)
        run.after_call(decision, result="same")
    return decisions


def test_a_repeat_is_warned_of_then_refused_with_the_same_words() -> None:
    client = warden()
    events = listened(client)
    decisions = repeat(client.run("r"), 6)
    assert [decision.action for decision in decisions] == ["allow", "allow", "warn", "block", "block", "block"]
    assert len({decision.message for decision in decisions[3:]}) == 1
    assert [type(event) for event in events].count(ToolCall) == 3
    assert [type(event) for event in events].count(ToolResult) == 3  # of a refused call none is published
    refused = [event for event in events if isinstance(event, CallRefused)]
    acks = [event for event in events if isinstance(event, VerdictAck)]
    assert [event.call_id for event in refused] == [decision.call_id for decision in decisions[3:]]
    assert [event.result for event in acks] == ["applied"] * 4
    assert [event.call_id for event in acks] == [decision.call_id for decision in decisions[2:]]
    assert client.stats.refused == 3


def test_a_refusal_is_the_documented_blocked_result() -> None:
    decision = repeat(warden().run(), 4)[-1]
    assert decision.blocked_result == {
        "content": [{"type": "text", "text": decision.message}],
        "details": {"status": "blocked", "deniedReason": "tool-loop", "reason": decision.message},
    }
    with pytest.raises(CallRefusedError) as caught:
        decision.raise_if_refused()
    assert caught.value.blocked_result == decision.blocked_result
    assert caught.value.detector == "generic_repeat"


def test_the_context_manager_hands_results_back_notes_and_refuses() -> None:
    run, notes = warden().run(), []
    for _ in range(3):
        with run.call("read", {"path": "/a"}) as call:
            assert call.result("same") == "same"
        notes.append(call.note)
    assert notes[:2] == [None, None]
    assert notes[2]
    assert "2 times" in notes[2]
    with pytest.raises(CallRefusedError), run.call("read", {"path": "/a"}):
        pytest.fail("a refused call must not run")


def test_async_code_has_the_same() -> None:
    done: list[int] = []

    async def agent() -> None:
        async with warden() as client, client.run() as run:
            for number in range(9):
                async with run.call("read", {"path": "/a"}) as call:
                    done.append(call.result(number and 0))

    with pytest.raises(CallRefusedError):
        asyncio.run(agent())
    assert done == [0, 0, 0]


def test_what_the_block_raises_is_the_calls_error_and_goes_on() -> None:
    client = warden()
    events = listened(client)
    run = client.run()
    with pytest.raises(ValueError, match="no such file"), run.call("read", {"path": "/a"}):
        raise ValueError("no such file")
    (result,) = [event for event in events if isinstance(event, ToolResult)]
    assert result.facts is not None
    assert result.facts.failed


def test_a_compaction_loop_ends_the_run() -> None:
    client = warden()
    events = listened(client)

    def agent() -> None:
        with client.run("r") as run:
            run.compacted(tokens_before=1000, tokens_after=100)
            for number in range(9):
                with run.call("read", {"path": "/a"}, call_id=f"c{number}") as call:
                    call.result("same")

    with pytest.raises(CompactionLoopPersisted) as caught:
        agent()
    assert (caught.value.run_id, caught.value.scope, caught.value.count) == ("r", "run", 3)
    assert caught.value.verdict_id
    assert isinstance(events[-1], RunEnded)
    assert events[-1].outcome == "aborted"


def test_check_raises_between_two_model_calls() -> None:
    run = warden().run()
    run.check()
    run.compacted()
    repeat(run, 3)
    assert run.aborted
    with pytest.raises(RunAborted):
        run.check()


@pytest.mark.parametrize(("worker", "runner"), [("observe", "enforce"), ("enforce", "observe")])
def test_observe_says_what_would_have_happened(worker: str, runner: Any) -> None:
    client = warden(worker, mode=runner)
    events = listened(client)
    decisions = repeat(client.run(), 5)
    assert {decision.action for decision in decisions} == {"allow"}
    assert [decision.asked for decision in decisions[2:4]] == ["warn", "block"]
    assert {event.result for event in events if isinstance(event, VerdictAck)} == {"ignored"}
    assert client.stats.refused == 0


def test_a_policy_turns_refusals_into_notes() -> None:
    decisions = repeat(warden(policy=Policy(on_critical="warn")).run(), 4)
    assert decisions[-1].action == "warn"
    assert decisions[-1].asked == "block"
    assert decisions[-1].note


def test_a_runner_that_cannot_refuse_says_so() -> None:
    client = warden()
    events = listened(client)
    assert repeat(client.run(supports=["warn"]), 4)[-1].action == "allow"
    assert [event.result for event in events if isinstance(event, VerdictAck)][-1] == "unsupported"


def test_content_stays_in_the_process_unless_asked_for() -> None:
    for content in ("fingerprint", "raw"):
        client = warden(content=content, salt="s")
        events = listened(client)
        run = client.run()
        with run.call("read", {"path": "/secret"}) as call:
            call.result("a secret")
        assert (b"secret" in b"".join(map(encode_event, events))) == (content == "raw")
        assert all(event.facts for event in events if isinstance(event, ToolCall | ToolResult))


def test_the_salt_changes_every_fingerprint() -> None:
    facts = []
    for salt in ("one", "two"):
        client = warden(salt=salt)
        events = listened(client)
        repeat(client.run(), 1)
        facts.append(next(event.facts for event in events if isinstance(event, ToolResult)))
    assert facts[0].args_fp != facts[1].args_fp
    assert facts[0].outcome_fp != facts[1].outcome_fp


def test_families_share_a_key_and_children_name_their_root() -> None:
    client = warden()
    events = listened(client)
    top = client.run("top")
    child = client.run("child", **top.context())  # type: ignore[arg-type]
    grandchild = client.run("grandchild", parent=child)
    assert (grandchild.parent_run_id, grandchild.root_run_id, grandchild.key) == ("child", "top", "top")
    assert {event.key for event in events} == {"top"}


def test_a_run_is_kept_until_it_ends() -> None:
    client = warden()
    client.run("r").before_call("read", {})
    gc.collect()
    run = client.run("r")
    assert client.run("r") is run
    run.end()
    assert client.run("r") is not run
    assert client.stats.dropped == 0


def test_a_result_of_an_unknown_call_needs_its_tool() -> None:
    client = warden()
    events = listened(client)
    run = client.run()
    run.after_call("c9", result="same")
    run.after_call("c9", tool="read", args={"path": "/a"}, result="same")
    assert [event.call_id for event in events if isinstance(event, ToolResult)] == ["c9"]


def test_a_second_result_of_a_call_is_not_published() -> None:
    client = warden()
    events = listened(client)
    run = client.run()
    decision = run.before_call("read", {})
    run.after_call(decision, result=1)
    run.after_call(decision, result=1)
    assert len([event for event in events if isinstance(event, ToolResult)]) == 1


class Hostile:
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


@pytest.mark.parametrize(
    ("tool", "args", "call_id"),
    [
        (None, None, None),
        ("x" * 10_000, {"a": float("nan")}, "c" * 5_000),
        ("read\x1b[31m<b>", {"\ud800": "\ud800"}, "\ud800"),
        ("read", object(), 7),
        ("read", {1: {2: [3]}}, ""),
        (Hostile(), {}, None),
        ("read", {"x": Hostile()}, None),
    ],
)
def test_nothing_that_is_handed_over_is_raised_back_or_refused_by_the_worker(
    tool: Any, args: Any, call_id: Any
) -> None:
    client = warden()
    run = client.run()
    decision = run.before_call(tool, args, call_id=call_id, batch_id="b" * 999, usage={"tokens_in": "many"})  # type: ignore[dict-item]
    assert not decision.refused
    run.after_call(decision, result=args)
    run.compacted(tokens_before=-1)
    run.end("x" * 999)
    assert client.stats.dropped == 0


@pytest.mark.parametrize("run_id", ["x" * 257, "\x00config"])
def test_an_id_that_no_worker_takes_is_an_error_at_once(run_id: str) -> None:
    with pytest.raises(UsageError):
        warden().run(run_id)


@pytest.mark.parametrize(
    "options",
    [{"mode": "loud"}, {"strict_fail": "ajar"}, {"strict_timeout": 0}, {"content": "hashed"}, {"queue_size": 0}],
)
def test_a_parameter_that_cannot_be_is_an_error_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        warden(**options)


def test_profile_progress_is_obeyed_by_call_tool_and_run() -> None:
    client = LoopWarden.in_process({"loopwarden": {"profile": "progress"}})
    run = client.run()
    known = [attempt(run, "read", {"path": "/a"}, "same") for _ in range(8)]
    assert (known[-1].action, known[-1].scope, known[-1].detector) == ("block", "call", "repeat")
    assert attempt(run, "read", {"path": "/b"}, "other").action == "allow"
    failing = [attempt(run, "fetch", {"page": number}, ValueError("no such host")) for number in range(40)]
    refused = [decision for decision in failing if decision.refused]
    assert (refused[0].action, refused[0].scope) == ("block", "tool")
    assert (refused[-1].action, refused[-1].scope) == ("abort", "run")
    assert run.aborted
    assert client.stats.failures == 0


def attempt(run: Run, tool: str, args: dict[str, Any], outcome: object) -> Decision:
    decision = run.before_call(tool, args)
    if isinstance(outcome, Exception):
        run.after_call(decision, error=outcome)
    else:
        run.after_call(decision, result=outcome)
    return decision
