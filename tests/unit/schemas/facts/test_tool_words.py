"""Kinds of tools by their names (progress 3.3, 3.4)."""

from __future__ import annotations

import pytest

from loopwarden_schemas.facts.tool_words import ToolTraits, kind_of_words, tool_traits, words


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("read_file", ["read", "file"]),
        ("readFile", ["read", "file"]),
        ("HTTPGet2Page", ["http", "get", "page"]),
        ("str-replace.editor", ["str", "replace", "editor"]),
        ("", []),
        ("42", []),
    ],
)
def test_words(name: str, expected: list[str]) -> None:
    assert words(name) == expected


def test_words_stop() -> None:
    assert words("a b c d", 2) == ["a", "b"]


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ("read", ToolTraits("read", spawn=False, wait=False)),
        ("job_status", ToolTraits("read", spawn=False, wait=True)),
        ("todo_write", ToolTraits("effect", spawn=False, wait=False)),
        ("list_agents", ToolTraits("read", spawn=False, wait=False)),  # the first known word decides
        ("spawn_agent", ToolTraits("effect", spawn=True, wait=False)),
        ("create_agent", ToolTraits("effect", spawn=False, wait=False)),
        ("sessions_send", ToolTraits("send", spawn=False, wait=False)),
        ("exec", ToolTraits("other", spawn=False, wait=False)),
    ],
)
def test_traits(tool: str, expected: ToolTraits) -> None:
    assert tool_traits(tool) == expected


def test_a_name_of_megabytes_is_not_read_to_its_end() -> None:
    assert tool_traits("x" * 10_000_000 + "_read").kind == "other"


def test_kind_of_no_words() -> None:
    assert kind_of_words([]) == ("other", False)
