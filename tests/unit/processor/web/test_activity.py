"""Rates by the minute, and the last verdicts."""

from __future__ import annotations

from loopwarden.processor.web.activity import VERDICTS, Activity
from loopwarden_schemas.configuration import Configuration
from tests.loads.records import STRICT, fold_all, records
from tests.loads.worker import looping

CONFIGURATION = Configuration.from_block(STRICT)


def test_rates_forget_what_is_older() -> None:
    activity = Activity()
    batch = next(fold_all(records(looping("r", 4)), CONFIGURATION))
    loops = sum(verdict.stage == "final" and verdict.level != "none" for _, verdict in batch.verdicts)
    start = 1_760_000_000_000
    for minute in (0, 3, 58):
        activity.batch_finished(0, batch, fold_seconds=0.1, now_ms=start + minute * 60_000)
    assert [tuple(rate) for rate in activity.rates(start + 58 * 60_000)] == [
        (1, 4, loops),
        (5, 4, loops),
        (60, 12, 3 * loops),
    ]
    assert [rate.calls for rate in activity.rates(start + 62 * 60_000)] == [0, 4, 8]
    assert [rate.calls for rate in activity.rates(start + 300 * 60_000)] == [0, 0, 0]


def test_only_the_last_verdicts_are_kept() -> None:
    activity = Activity()
    for number in range(60):
        batch = next(fold_all(records(looping(f"r{number}", 6)), CONFIGURATION))
        activity.batch_finished(0, batch, fold_seconds=0.1, now_ms=1_760_000_000_000)
    kept = activity.recent_verdicts()
    assert len(kept) == VERDICTS
    assert kept[-1].run_id == "r59"
    assert all(verdict.level != "none" for verdict in kept)
