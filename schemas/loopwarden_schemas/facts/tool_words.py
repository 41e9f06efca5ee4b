"""What the name of a tool says about its calls: do they read, write, send, wait, spawn? (progress 3.3, 3.4)."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from typing import Literal, NamedTuple

__all__ = ["READ_WORDS", "Kind", "ToolTraits", "kind_of_words", "tool_traits", "words"]

Kind = Literal["read", "effect", "send", "other"]

# fmt: off
READ_WORDS = frozenset({
    "read", "get", "list", "search", "find", "view", "show", "describe", "query", "lookup", "fetch", "open",
    "cat", "ls", "grep", "glob", "count", "check", "status", "poll", "wait", "sleep", "watch", "monitor",
    "inspect", "browse", "load", "scroll", "goto",
})
SEND_WORDS = frozenset({
    "send", "reply", "message", "notify", "post", "email", "mail", "sms",
})
SPAWN_WORDS = frozenset({"spawn", "delegate", "handoff", "agent", "subagent", "assign"})
EFFECT_WORDS = SPAWN_WORDS | frozenset({
    "write", "edit", "create", "update", "delete", "remove", "insert", "append", "replace", "patch", "apply",
    "save", "set", "put", "move", "rename", "publish", "submit", "commit", "push", "deploy", "upload", "undo",
    "str",
})
WAIT_WORDS = frozenset({"wait", "sleep", "poll", "status", "watch", "monitor"})
# fmt: on

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LONGEST_NAME = 256
"""Characters of a name that are looked at: a hostile name of megabytes costs no more than this."""


class ToolTraits(NamedTuple):
    """What a tool's name alone says.

    Attributes:
        kind: What the calls of the tool do, unless an argument says otherwise.
        spawn: Whether a call starts another agent.
        wait: Whether the name has a word of waiting.
    """

    kind: Kind
    spawn: bool
    wait: bool


def words(name: str, at_most: int | None = None) -> list[str]:
    """Splits a name at camel-case humps and at everything that is no letter, in lower case.

    Args:
        name: A tool name, an action or a command; only its first 256 characters count.
        at_most: Stop after that many words.
    """
    found = (match.group().lower() for match in _WORD.finditer(name, 0, _LONGEST_NAME))
    return list(found if at_most is None else islice(found, at_most))


def kind_of_words(names: list[str]) -> tuple[Kind, bool]:
    """The kind that the first known word decides, and whether that word spawns."""
    for word in names:
        if word in READ_WORDS:
            return "read", False
        if word in SEND_WORDS:
            return "send", False
        if word in EFFECT_WORDS:
            return "effect", word in SPAWN_WORDS
    return "other", False


def tool_traits(tool: str) -> ToolTraits:
    """What the name of a tool says about its calls; known names are remembered."""
    return _tool_traits(tool[:_LONGEST_NAME])


@lru_cache(maxsize=2048)
def _tool_traits(tool: str) -> ToolTraits:
    names = words(tool)
    kind, spawn = kind_of_words(names)
    return ToolTraits(kind, spawn, not WAIT_WORDS.isdisjoint(names))
