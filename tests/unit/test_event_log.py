from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from loopwarden.event_log import read_event_log, read_lines
from loopwarden.recordings import LogRecord

_EVENT = {"type": "tool_call", "run_id": "r1", "tool": "t", "ts": 1_700_000_000_000}


def _read(tmp_path: Path, *lines: Any) -> list[tuple[int, LogRecord]]:
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return list(read_event_log(path))


def test_a_plain_event_follows_the_one_before_at_its_own_time(tmp_path: Path) -> None:
    read = _read(tmp_path, _EVENT, "", {**_EVENT, "ts": None}, {**_EVENT, "ts": "soon"}, {**_EVENT, "ts": 1e300})
    assert [partition for partition, _ in read] == [0, 0, 0, 0]
    assert [record.offset for _, record in read] == [0, 1, 2, 3]
    assert {record.timestamp for _, record in read} == {1_700_000_000_000}
    assert read[0][1].key == b"r1"
    assert json.loads(read[0][1].value or b"") == _EVENT


def test_a_plain_event_may_say_where_and_when_it_stood(tmp_path: Path) -> None:
    ((partition, record),) = _read(tmp_path, {**_EVENT, "partition": 3, "offset": 17, "timestamp": 5})
    assert (partition, record.offset, record.timestamp) == (3, 17, 5)


def test_a_record_around_an_event(tmp_path: Path) -> None:
    envelope = {"partition": 1, "offset": 9, "timestamp": 7, "key": "other", "value": _EVENT}
    ((partition, record),) = _read(tmp_path, envelope)
    assert (partition, record.offset, record.timestamp, record.key) == (1, 9, 7, b"other")
    assert json.loads(record.value or b"") == _EVENT


def test_a_value_that_is_text_is_the_message_itself(tmp_path: Path) -> None:
    read = _read(tmp_path, {"value": json.dumps(_EVENT)}, {"value": "no json", "key": None})
    assert (read[0][1].key, read[0][1].timestamp) == (b"r1", _EVENT["ts"])
    assert (read[1][1].key, read[1][1].value) == (None, b"no json")


def test_the_key_is_that_of_the_root(tmp_path: Path) -> None:
    read = _read(tmp_path, {**_EVENT, "root_run_id": " root "}, {**_EVENT, "root_run_id": " "})
    assert [record.key for _, record in read] == [b"root", b"r1"]


def test_offsets_go_on_after_those_that_are_named(tmp_path: Path) -> None:
    read = _read(tmp_path, {**_EVENT, "offset": 10}, _EVENT, {**_EVENT, "partition": 2}, _EVENT)
    assert [(partition, record.offset) for partition, record in read] == [(0, 10), (0, 11), (2, 0), (0, 12)]


def test_lines_that_are_no_events_are_lines_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(
        b"\xff\xfe\n[1]\n" + b"[" * 100_000 + b'\n{"type":"tool_call","run_id":"r","tool":"t","args":NaN}\n'
    )
    lines = list(read_lines(path))
    assert [line.number for line in lines] == [1, 2, 3, 4]
    assert [line.key for line in lines] == [None, None, None, b"r"]
