"""A run's events leave in the order in which they happened."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import Future

from loopwarden.runner.bus import OnOffset
from loopwarden.runner.outbox import Outbox
from loopwarden.runner.reducer import Reducer
from loopwarden_schemas.events import Compaction, Event, ToolResult


def outbox() -> tuple[Outbox, list[Event]]:
    sent: list[Event] = []
    numbers = itertools.count()

    def publish(event: Event, on_offset: OnOffset | None) -> None:
        sent.append(event)

    box = Outbox(
        agent_id="a",
        parent_run_id="p",
        root_run_id="top",
        session_id="s",
        new_event_id=lambda: f"e{next(numbers)}",
        publish=publish,
    )
    return box, sent


def test_every_event_is_stamped() -> None:
    box, sent = outbox()
    box.put(Compaction(run_id="r"))
    box.put(Compaction(run_id="r"))
    assert [(event.event_id, event.seq) for event in sent] == [("e0", 0), ("e1", 1)]
    assert (sent[0].agent_id, sent[0].parent_run_id, sent[0].root_run_id, sent[0].session_id) == ("a", "p", "top", "s")
    assert sent[0].ts


def test_what_comes_after_a_result_that_is_being_reduced_waits_for_it() -> None:
    box, sent = outbox()
    first, second = Future[None](), Future[None]()
    box.put(ToolResult(run_id="r", tool="a"), reducing=first)
    box.put(Compaction(run_id="r"))
    box.put(ToolResult(run_id="r", tool="b"), reducing=second)
    box.put(Compaction(run_id="r"))
    assert sent == []
    second.set_result(None)
    assert sent == []
    first.set_result(None)
    assert [event.seq for event in sent] == [0, 1, 2, 3]
    box.put(Compaction(run_id="r"))
    assert len(sent) == 5


def test_the_reducer_works_off_in_order_and_takes_no_more_than_its_bound() -> None:
    reducer, go, done = Reducer(pending_jobs=2), threading.Event(), []
    assert reducer.submit(lambda: done.append(go.wait(10)))
    assert reducer.submit(lambda: done.append(True))
    assert reducer.submit(lambda: done.append(False)) is None
    assert reducer.unreduced == 1
    go.set()
    assert reducer.drain(10)
    assert done == [True, True]
    reducer.close()


def test_a_job_that_fails_stops_no_other() -> None:
    reducer, done = Reducer(), []
    reducer.submit(lambda: done.append(1 // 0))
    reducer.submit(lambda: done.append(1))
    assert reducer.drain(10)
    assert (done, reducer.unreduced) == ([1], 1)
    reducer.close()
