"""What a runner makes of a finding. Pure. It may do less than is asked, by mode or by policy, and says so."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal, NamedTuple

from loopwarden_schemas.events import AckResult
from loopwarden_schemas.verdicts import Action, Mode, StandingEntry

__all__ = ["ALL_ACTIONS", "Answer", "Hook", "Policy", "decide"]

Word = Literal["obey", "warn", "allow"]
Hook = Word | Callable[[StandingEntry], Word]
"""``obey`` does what the rule asks for; ``warn`` only tells the model; ``allow`` does nothing."""

ALL_ACTIONS: frozenset[Action] = frozenset(["warn", "block", "abort"])
_FORCE: dict[Action, int] = {"allow": 0, "warn": 1, "block": 2, "abort": 3}
_WORDS: dict[Word, Action] = {"obey": "abort", "warn": "warn", "allow": "allow"}  # the strongest that each allows


@dataclass(frozen=True)
class Policy:
    """What to do on a finding. Each is a word, or a function that is given the finding and answers with one.

    A function runs in the agent's thread, before the call; one that raises or answers with something else is taken for
    ``obey``.

    Attributes:
        on_warning: A call that repeats.
        on_critical: A call that is to be refused.
        on_abort: A run that is to end.
    """

    on_warning: Hook = "obey"
    on_critical: Hook = "obey"
    on_abort: Hook = "obey"


class Answer(NamedTuple):
    """What is done about a finding, and what the worker is told.

    Attributes:
        action: What is done.
        result: What the acknowledgement says.
    """

    action: Action
    result: AckResult


def decide(
    entry: StandingEntry, *, worker: Mode, runner: Mode, policy: Policy, supports: Collection[Action] = ALL_ACTIONS
) -> Answer:
    """What is done about a finding. Never more than the rule asks for.

    Args:
        entry: What the standing says of the call.
        worker: Mode of the verdict; one in mode ``observe`` is never obeyed.
        runner: Mode of the runner: it may only weaken the worker's.
        policy: The runner's policy.
        supports: What this runner is able to do. An abort that it cannot carry out becomes a refusal.
    """
    asked = entry.action
    if asked == "allow" or "observe" in (worker, runner):
        return Answer("allow", "ignored")
    hook = {"warn": policy.on_warning, "block": policy.on_critical, "abort": policy.on_abort}[asked]
    action = min(asked, _WORDS[_word(hook, entry)], key=_FORCE.__getitem__)
    if action != asked:
        return Answer(action if action in supports else "allow", "ignored")
    if asked in supports:
        return Answer(asked, "applied")
    return Answer("block" if asked == "abort" and "block" in supports else "allow", "unsupported")


def _word(hook: Hook, entry: StandingEntry) -> Word:
    if callable(hook):
        try:
            hook = hook(entry)
        except Exception:
            return "obey"
    return hook if hook in _WORDS else "obey"
