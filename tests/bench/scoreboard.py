"""Prints how both profiles judge recorded runs and public reports: the table of progress, 12.

    python -m tests.bench.scoreboard [--traces FILE]... [--cases FILE]...

A run is halted at its first critical or abort; the calls from there on are saved, on the assumption that it would not
have gone on. A report is right when the worst verdict is of the level that it expects. Everything goes through
``fold_batch``, as in the worker, in mode ``observe``: what the agent did, it did without us.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from loopwarden.detection.partition import fold_batch
from loopwarden.recordings import Recording, read_recordings
from loopwarden_schemas.configuration import Configuration
from loopwarden_schemas.events import ToolCall
from loopwarden_schemas.verdicts import Verdict
from tests.loads.records import MemoryRows

DATA = Path(__file__).parent.parent / "data"
LEVELS = ("none", "warning", "critical", "abort")
PROFILES = {
    "progress": Configuration({"loopwarden": {"profile": "progress", "mode": "observe"}}),
    "documented": Configuration.from_block({"enabled": True}, profile="documented", mode="observe"),
}


@dataclass(frozen=True)
class Score:
    """What a profile made of one recording.

    Attributes:
        level: Worst level, one of ``LEVELS``.
        rule: Rule of the first verdict of that level.
        at_call: Number of the call that it came with, from 1; 0 for none.
        calls: Calls made.
        halted_at: Number of the first call that would not have run; 0 where none was refused.
    """

    level: str
    rule: str
    at_call: int
    calls: int
    halted_at: int

    @property
    def saved(self) -> int:
        """Calls from the refused one on."""
        return self.calls - self.halted_at + 1 if self.halted_at else 0


def score(recording: Recording, configuration: Configuration) -> Score:
    """Judges one recording."""
    batch = fold_batch(MemoryRows(), "recording", 0, recording.log(), configuration)
    assert not batch.dead_letters, batch.dead_letters[0]
    worst, rule, at_call, halted_at = "none", "", 0, 0
    calls_before = [0]
    for event in recording.events:
        calls_before.append(calls_before[-1] + isinstance(event, ToolCall))
    for _, verdict in batch.verdicts:
        if verdict.stage != "final":
            continue
        offset = verdict.cause.offset
        # A verdict of a call meets that call; one of a result or a compaction meets the next.
        met = calls_before[offset] + 1
        level = "abort" if verdict.action == "abort" else verdict.level
        if LEVELS.index(level) > LEVELS.index(worst):
            worst, rule, at_call = level, verdict.detector or "", calls_before[offset + 1]
        if _halts(verdict) and not halted_at:
            halted_at = met
    return Score(worst, rule, at_call, calls_before[-1], halted_at)


def _halts(verdict: Verdict) -> bool:
    return verdict.action in ("block", "abort")


def print_runs(recordings: list[Recording]) -> None:
    """The recorded runs: halted, of the successful ones, calls saved."""
    print(f"\n{len(recordings)} recorded runs, {sum(r.outcome == 'success' for r in recordings)} of them successful")
    print(f"  {'':12}{'halted':>8}{'of successes':>14}{'calls':>8}{'saved':>8}")
    for name, configuration in PROFILES.items():
        scores = [(recording, score(recording, configuration)) for recording in recordings]
        calls = sum(each.calls for _, each in scores)
        saved = sum(each.saved for _, each in scores)
        halted = [recording for recording, each in scores if each.halted_at]
        wrong = sum(recording.outcome == "success" for recording in halted)
        print(f"  {name:12}{len(halted):8}{wrong:14}{calls:8}{saved / calls:8.1%}")


def print_reports(recordings: list[Recording]) -> None:
    """The public reports: how many are judged as they should be, and which are not."""
    print(f"\n{len(recordings)} public reports: worst verdict at the level that the report expects")
    for name, configuration in PROFILES.items():
        scores = [(recording, score(recording, configuration)) for recording in recordings]
        wrong = [(recording, each) for recording, each in scores if each.level != recording.expected]
        print(f"  {name:12}{len(recordings) - len(wrong):4} right")
        for recording, each in wrong:
            found = f"{each.level} ({each.rule}, call {each.at_call})" if each.rule else each.level
            print(f"      {recording.name:6} expected {recording.expected}, got {found}")


def _all(paths: Iterable[str]) -> list[Recording]:
    return [recording for path in paths for recording in read_recordings(path)]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--traces", action="append", metavar="FILE", help="recorded runs instead of ours (repeatable)")
    parser.add_argument("--cases", action="append", metavar="FILE", help="reports instead of ours (repeatable)")
    options = parser.parse_args()
    print_runs(_all(options.traces or [str(DATA / "traces" / "agent-runs.jsonl")]))
    print_reports(_all(options.cases or [str(DATA / "cases" / "public-reports.json")]))


if __name__ == "__main__":
    main()
