"""Facts of profile progress (progress 3.1 to 3.6)."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwarden_schemas.facts.progress import NO_OUTCOME, call_facts, outcome_facts, overridden

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def call(args: Any, tool: str = "run") -> str:
    return call_facts(tool, args).call


def target(args: Any, tool: str = "run") -> str:
    return call_facts(tool, args).target


def outcome(result: Any) -> str | None:
    return outcome_facts(result).outcome


class TestCall:
    def test_key_order_is_no_identity(self) -> None:
        assert call({"a": 1, "b": {"x": 1, "y": 2}}) == call({"b": {"y": 2, "x": 1}, "a": 1})

    def test_the_tool_is_identity(self) -> None:
        assert call({}, "a") != call({}, "b")

    @pytest.mark.parametrize(
        "key", ["requestId", "REQUEST_ID", "idempotencyKey", "trace_id", "nonce", "ts", "Timestamp"]
    )
    def test_volatile_keys_are_dropped_at_any_depth(self, key: str) -> None:
        assert call({"a": [{key: 1, "b": 2}]}) == call({"a": [{key: 2, "b": 2}]}) == call({"a": [{"b": 2}]})

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("a  b", "a b"),
            ("a\tb", "a b"),
            ("a \nb", "a\nb"),
            ("a\n \t \nb", "a\n\nb"),
            ("a\t ", "a"),
            ("  a \t b", "  a b"),
        ],
    )
    def test_blanks_inside_and_after_a_line_do_not_count(self, one: str, other: str) -> None:
        assert call({"x": one}) == call({"x": other})

    @pytest.mark.parametrize(
        ("one", "other"),
        [("  a", " a"), ("a\n  b", "a\n b"), ("a\nb", "a b"), ("a\n", "a"), ("page 1", "page 2"), ("", None), (1, "1")],
    )
    def test_indentation_lines_numbers_and_types_count(self, one: Any, other: Any) -> None:
        assert call({"x": one}) != call({"x": other})

    def test_no_arguments_are_an_empty_object(self) -> None:
        assert call_facts("run", None) == call_facts("run", {})

    def test_a_salt_changes_every_fingerprint(self) -> None:
        plain, salted = call_facts("run", {"x": 1}), call_facts("run", {"x": 1}, salt=b"s")
        assert plain.call != salted.call
        assert outcome_facts("x").outcome != outcome_facts("x", salt=b"s").outcome
        assert outcome_facts(error="x").class_ != outcome_facts(error="x", salt=b"s").class_


class TestTarget:
    def test_other_words_same_target(self) -> None:
        one = {"to": "peer", "text": "please look at this again"}
        other = {"to": "peer", "text": "could you have another look, please?"}
        assert call(one) != call(other)
        assert target(one) == target(other)

    def test_prose_and_its_absence_differ(self) -> None:
        assert target({"text": "please look at this"}) != target({"text": ""})

    @pytest.mark.parametrize("key", ["command", "Query", "q", "sql", "content", "path"])
    def test_texts_of_identity_are_no_prose(self, key: str) -> None:
        facts = call_facts("run", {key: "select name from users"})
        assert (facts.target == facts.call) == (key not in ("Query", "q"))

    @pytest.mark.parametrize("text", ["two words", "a b c d", "x=1 y=2 z=3 done", "12 34 56"])
    def test_few_or_other_words_are_no_prose(self, text: str) -> None:
        facts = call_facts("run", {"text": text})
        assert facts.target == facts.call

    def test_sixty_per_cent_of_letters_will_do(self) -> None:
        facts = call_facts("run", {"text": "one two three 4 5"})
        assert facts.target != facts.call

    def test_members_of_a_list_stand_under_its_key(self) -> None:
        args = {"command": ["say hello to them"], "notes": ["say hello to them"]}
        assert target(args) == target({**args, "notes": ["say farewell to them"]})
        assert target(args) != target({**args, "command": ["say farewell to them"]})


class TestKind:
    @pytest.mark.parametrize(
        ("tool", "args", "kind"),
        [
            ("exec", {"command": "ls"}, "other"),
            ("telegram", {"action": "send"}, "send"),
            ("telegram", {"action": "react"}, "other"),
            ("message", {"action": "read"}, "read"),
            ("message", {"action": "send"}, "send"),
            ("str_replace_editor", {"command": "view"}, "read"),
            ("str_replace_editor", {"command": "create"}, "effect"),
            ("deploy", {"command": "deploy status"}, "read"),
            ("deploy", {"command": "start and view"}, "effect"),
            ("edit", {"action": "write", "command": "view"}, "effect"),
            ("agent", {"action": "list"}, "read"),
        ],
    )
    def test_arguments_refine_the_name(self, tool: str, args: Any, kind: str) -> None:
        assert call_facts(tool, args).kind == kind

    def test_only_an_effect_spawns(self) -> None:
        assert call_facts("agent", {"task": "x"}).spawn
        assert not call_facts("agent", {"action": "list"}).spawn


class TestWait:
    @pytest.mark.parametrize(
        ("tool", "args", "wait"),
        [
            ("job_status", {"id": 1}, True),
            ("run", {}, True),
            ("run", None, True),
            ("run", {"a": [None, False, " ", {}, []]}, True),
            ("run", {"requestId": "7"}, True),
            ("run", {"n": 0}, False),
            ("process", {"action": "poll", "id": 1}, True),
            ("process", {"action": "kill", "id": 1}, False),
            ("bash", {"cmd": " sleep 5"}, True),
            ("bash", {"command": "wait"}, True),
            ("bash", {"command": "sleepy"}, False),
            ("write", {}, False),
            ("send_status", {"to": "x"}, False),
        ],
    )
    def test_wait(self, tool: str, args: Any, wait: bool) -> None:
        assert call_facts(tool, args).wait is wait


class TestOverride:
    def test_nothing(self) -> None:
        facts = call_facts("job_status", {})
        assert overridden(facts) == facts

    def test_an_effect_does_not_wait_unless_told(self) -> None:
        facts = call_facts("job_status", {})
        assert not overridden(facts, "effect").wait
        assert overridden(facts, "effect", True).wait
        assert overridden(facts, wait=False) == facts._replace(wait=False)

    def test_what_is_no_effect_does_not_spawn(self) -> None:
        assert not overridden(call_facts("agent", {"x": 1}), "other").spawn


class TestOutcome:
    def test_no_outcome(self) -> None:
        assert outcome_facts() == outcome_facts(None, None) == NO_OUTCOME

    def test_a_text_that_parses_is_an_object(self) -> None:
        assert outcome({"a": 1, "b": 2}) == outcome('{"b": 2, "a": 1}') == outcome(' {"b": 2, "a": 1}')
        assert outcome("[1]") == outcome([1])
        assert outcome("{b}") != outcome({"b": None})

    @pytest.mark.parametrize("key", ["messageId", "RUN_ID", "ts", "durationMs", "pid", "createdAt", "sessionId"])
    def test_volatile_keys(self, key: str) -> None:
        assert outcome({"a": [{key: 1}]}) == outcome({"a": [{key: 2}]}) == outcome({"a": [{}]})

    def test_texts_in_objects_are_masked(self) -> None:
        assert outcome({"m": "took 3 ms"}) == outcome({"m": "took 4 ms"})
        assert outcome({"m": "3 left"}) != outcome({"m": "2 left"})

    def test_numbers_are_not(self) -> None:
        assert outcome({"n": 12345678901}) != outcome({"n": 12345678902})


class TestFailure:
    @pytest.mark.parametrize(
        ("result", "failed"),
        [
            ({"status": "failed", "text": "no"}, True),
            ({"status": "error", "text": "no"}, True),
            ({"exitCode": 1, "stderr": "no"}, True),
            ({"details": {"exitCode": 1}, "text": "no"}, True),
            ({"isError": True, "content": [{"type": "text", "text": "no"}]}, True),
            ('{"exitCode": 1, "stderr": "no"}', True),
            ({"exitCode": 0, "stderr": "no"}, False),
            ({"exitCode": True, "stderr": "no"}, False),
            ({"exitCode": "1", "stderr": "no"}, False),
            ({"isError": 1, "text": "no"}, False),
            ({"status": "ok", "text": "no"}, False),
            ({"exitCode": 1, "stdout": " \n"}, False),  # grep without a hit
            ({"exitCode": 1, "type": "text", "runId": "r1", "stdout": ""}, False),
            ([{"status": "failed", "text": "no"}], False),
        ],
    )
    def test_objects_that_say_so(self, result: Any, failed: bool) -> None:
        facts = outcome_facts(result)
        assert facts.failed is failed
        assert (facts.class_ is not None) is failed

    def test_an_error_is_no_result(self) -> None:
        assert outcome_facts("x").outcome != outcome_facts(error="x").outcome
        assert outcome_facts("x", "x") == outcome_facts(error="x")

    def test_an_error_of_any_type_fails(self) -> None:
        for error in ("", 0, False, [], {}, {"code": 1}, {"message": "x"}, ValueError("x")):
            facts = outcome_facts(error=error)
            assert facts.failed
            assert facts.outcome
        assert outcome_facts(error={"message": "x", "runId": "1"}) == outcome_facts(error="x")
        assert outcome_facts(error=ValueError("x")) == outcome_facts(error="x")
        assert outcome_facts(error={"code": 1}) != outcome_facts(error={"code": 2})

    def test_class_is_first_and_last_line_without_quotations(self) -> None:
        one = outcome_facts(error="Traceback:\n  line 1\nKeyError: 'a' isn't there")
        other = outcome_facts(error="Traceback:\n  line 2\n  more\nKeyError: 'b' isn't there\n")
        third = outcome_facts(error="Traceback:\n  line 2\n  more\nTypeError: 'b' isn't there")
        assert one.outcome != other.outcome
        assert one.class_ == other.class_ != third.class_

    def test_an_apostrophe_is_no_quotation(self) -> None:
        assert outcome_facts(error="can't open a, don't").class_ != outcome_facts(error="can't open b, don't").class_

    @pytest.mark.parametrize(
        "text",
        [
            "HTTP 429",
            "503 Service",
            "Request timeout",
            "timed out",
            "Rate limit reached",
            "Too Many Requests",
            "overloaded_error",
            "temporarily down",
            "unavailable",
            "connection refused",
            "ECONNRESET",
            "ETIMEDOUT",
            "Deadline Exceeded",
            "please try again later",
        ],
    )
    def test_transient(self, text: str) -> None:
        assert outcome_facts(error=text).transient
        assert outcome_facts({"exitCode": 1, "err": text}).transient

    @pytest.mark.parametrize("text", ["HTTP 404", "4290", "15021", "refused"])
    def test_not_transient(self, text: str) -> None:
        assert not outcome_facts(error=text).transient

    @pytest.mark.parametrize(
        "text",
        [
            "Unknown tool: fly",
            "invalid tool",
            "no such tool fly",
            "unregistered tool 'x'",
            "Tool fly not found",
            'tool "fly" is not available',
            "The tool `a.b/c-d` does not exist",
        ],
    )
    def test_missing(self, text: str) -> None:
        assert outcome_facts(error=text).missing
        assert not outcome_facts({"exitCode": 1, "err": text}).missing  # only the runner knows its tools

    @pytest.mark.parametrize("text", ["file not found", "toolbox x not found", "tool not found", "unknown tooling"])
    def test_not_missing(self, text: str) -> None:
        assert not outcome_facts(error=text).missing


class TestAnyValue:
    @given(json_values, json_values)
    def test_any_json_value_has_facts(self, args: Any, result: Any) -> None:
        facts, out, failure = call_facts("run", args), outcome_facts(result), outcome_facts(error=result)
        fingerprints = [facts.call, facts.target, out.outcome, out.class_, failure.outcome, failure.class_]
        assert all(re.fullmatch("[0-9a-f]{16}", found) for found in fingerprints if found is not None)
        assert call_facts("run", args) == facts
        assert outcome_facts(result) == out

    @given(json_values)
    def test_a_result_is_its_json(self, value: Any) -> None:
        if isinstance(value, dict | list):
            try:
                text = json.dumps(value).encode().decode()
            except UnicodeEncodeError:
                return
            assert outcome_facts(text) == outcome_facts(json.loads(text))

    @pytest.mark.parametrize("depth", [63, 64, 65, 500, 100_000])
    @pytest.mark.parametrize("opening", ["[", '{"a":'])
    def test_deep_nesting_is_one_mark(self, depth: int, opening: str) -> None:
        closing = "]" if opening == "[" else "}"
        text = opening * depth + "1" + closing * depth
        assert outcome_facts(text).outcome
        assert outcome_facts(error=text).failed
        value: Any = "x"
        for _ in range(depth):
            value = [value] if opening == "[" else {"a": value}
        assert call(value)
        assert outcome(value)
        assert outcome_facts(error=value).outcome
        assert (call(value) == call([value] if opening == "[" else {"a": value})) is (depth > 64)

    def test_values_that_json_cannot_hold(self) -> None:
        @dataclass
        class Point:
            x: int

        circle: list[Any] = []
        circle.append(circle)
        huge = 10**5_000
        odd = ["\ud800", {"\udfff": 1}, {1: 2}, (1,), {3, 4}, b"x", huge, -huge, Point(1), math.nan, math.inf, object()]
        for value in [*odd, circle, odd]:
            assert call({"x": value})
            assert outcome({"x": value})
            assert outcome(value)
            assert outcome_facts(error=value).failed
            assert call_facts("\ud800", value).call
        assert call({"x": huge}) != call({"x": huge + 1})
        assert call({"x": "\ud800"}) != call({"x": "\ud801"})
        assert outcome(Point(1)) == outcome({"x": 1})

    @pytest.mark.parametrize("piece", ["a ", "a  ", " \t", "word word ", "'", '"a', "\n ", "{", "tool ", "timed ", "é"])
    def test_ten_megabytes(self, piece: str) -> None:
        text = piece * (10_000_000 // len(piece))
        assert call({"text": text, "command": text, "action": text})
        assert outcome_facts(error=text).outcome
