"""What is told to one is told to all."""

from __future__ import annotations

from typing import Any

from loopwarden.processor.observer import Observer, Silent, Tee
from loopwarden_schemas.configuration import Configuration
from tests.loads.records import fold_all, records
from tests.loads.worker import looping


class Heard(Silent):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_") or name == "calls":
            return object.__getattribute__(self, name)
        return lambda *args, **named: self.calls.append((name, args, named))


def test_tee_passes_everything_on() -> None:
    first, second = Heard(), Heard()
    tee: Observer = Tee(first, second)
    batch = next(fold_all(records(looping("r", 1)), Configuration()))
    tee.batch_finished(1, batch, fold_seconds=0.1, now_ms=2)
    tee.changelog_written("history-ring", 10, 1)
    tee.live_runs(1, 2)
    tee.armed_guards(1, 2)
    tee.runs_expired(1, 2)
    tee.lag(1, 2)
    tee.commit(1)
    tee.recovered(1, 2, 0.5)
    tee.rebalanced(0.5)
    tee.partition_lost(1)
    tee.reconfigured(Configuration())
    assert [name for name, _, _ in first.calls] == [name for name in vars(Observer) if not name.startswith("_")], (
        "a method of the protocol is not passed on, or not tested here"
    )
    assert first.calls == second.calls
