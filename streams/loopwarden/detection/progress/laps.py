"""Whether the last steps are laps of one period that a call would continue: only words a message (progress, 7)."""

from __future__ import annotations

from typing import NamedTuple

from loopwarden.detection.progress.body import CALL, FIRST, OUTCOME, Body

__all__ = ["Lap", "lap"]

LONGEST = 5
_FIRSTS = bytes(flags for flags in range(256) if flags & FIRST)


class Lap(NamedTuple):
    """Steps that repeat.

    Attributes:
        period: Steps a lap.
        laps: How many in a row.
        places: Per step of the lap, from the one that the call begins, the place of its first call in memory.
    """

    period: int
    laps: int
    places: list[int]


def lap(body: Body, call: bytes) -> Lap | None:
    """The laps of the least period that a call would continue, at least two; None for none.

    Args:
        body: The run.
        call: Fingerprint of the call.
    """
    calls, outcomes, count = body.calls, body.outcomes, len(body.flags)
    singles = len(
        body.flags.rstrip(_FIRSTS)
    )  # from here on every step is one call: laps are equal stretches of columns
    if singles and count - singles < 2 * LONGEST:
        return _lap_of_batches(body, call)
    for period in range(1, min(LONGEST, count // 2) + 1):
        first = count - 2 * period
        if calls[-period * CALL :].startswith(call) and _is_periodic(calls, outcomes, period, first):
            low = singles
            while low < first:
                middle = (low + first) // 2
                if _is_periodic(calls, outcomes, period, middle):
                    first = middle
                else:
                    low = middle + 1
            return Lap(period, (count - first) // period, list(range(count - period, count)))
    return None


def _is_periodic(calls: bytes, outcomes: bytes, period: int, first: int) -> bool:
    """Whether each call from ``first`` on is, with its outcome, the one a period later."""
    return (
        calls[first * CALL : -period * CALL] == calls[(first + period) * CALL :]
        and outcomes[first * OUTCOME : -period * OUTCOME] == outcomes[(first + period) * OUTCOME :]
    )


def _lap_of_batches(body: Body, call: bytes) -> Lap | None:
    steps, starts = _newest_steps(body)
    count = len(steps)
    for period in range(1, min(LONGEST, count // 2) + 1):
        length = 0
        while length < count - period and steps[length] == steps[length + period]:
            length += 1
        laps = (length + period) // period
        if laps >= 2 and _has(steps[period - 1], call):
            return Lap(period, laps, starts[period - 1 :: -1])
    return None


def _newest_steps(body: Body) -> tuple[list[list[bytes]], list[int]]:
    """The steps in memory, newest first, and the place of each one's first call.

    A step is the sorted list of its calls with their outcomes: in which order a batch ran does not matter. What is left
    of a step whose first call was forgotten is no step.
    """
    calls, outcomes, flags = body.calls, body.outcomes, body.flags
    steps: list[list[bytes]] = []
    starts: list[int] = []
    step: list[bytes] = []
    for place in range(len(flags) - 1, -1, -1):
        step.append(calls[place * CALL : place * CALL + CALL] + outcomes[place * OUTCOME : place * OUTCOME + OUTCOME])
        if flags[place] & FIRST:
            if len(step) > 1:
                step.sort()
            steps.append(step)
            starts.append(place)
            step = []
    return steps, starts


def _has(step: list[bytes], call: bytes) -> bool:
    return any(member.startswith(call) for member in step)
