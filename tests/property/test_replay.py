"""Whatever the batching and the interleaving of partitions: one log, one set of verdicts and rows."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from loopwarden.replay import PartitionReplay, Span, replay_log
from loopwarden_schemas.codec import encode_verdict
from loopwarden_schemas.configuration import Configuration
from tests.loads.records import STRICT, Record, recorded_events, records
from tests.loads.worker import looping

_ON = Configuration.from_block(STRICT)
_LAX = Configuration.from_block({"enabled": True}, mode="observe")
_LOG = records(recorded_events(30) + looping("r1", 12) + looping("r2", 12, root="r1"))


def _one_big_batch(spans: list[Span]) -> tuple[list[bytes], dict[bytes, bytes]]:
    replay = PartitionReplay("agent-events", 0, spans)
    return [value for batch in replay.fold(_LOG) for _, value in batch.encoded_verdicts()], replay.rows.ring


@given(cuts=st.lists(st.integers(0, len(_LOG)), max_size=30), change=st.integers(0, len(_LOG)))
def test_any_batching_equals_one_big_batch(cuts: list[int], change: int) -> None:
    spans = [Span(0, _ON), Span(change, _LAX)]
    verdicts, ring = _one_big_batch(spans)
    replay = PartitionReplay("agent-events", 0, spans)
    found: list[bytes] = []
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(_LOG)], strict=True):
        for batch in replay.fold(_LOG[start:end]):
            found += [value for _, value in batch.encoded_verdicts()]
    assert verdicts
    assert found == verdicts
    assert replay.rows.ring == ring


@given(size=st.integers(1, 500), seed=st.integers(0, 1000))
def test_partitions_may_come_interleaved_in_any_way(size: int, seed: int) -> None:
    apart: dict[int, list[Record]] = {0: _LOG, 1: records(looping("other", 15))}
    order = [partition for partition, log in apart.items() for _ in log]
    random.Random(seed).shuffle(order)
    left = {partition: iter(log) for partition, log in apart.items()}
    log = [(partition, next(left[partition])) for partition in order]
    found: dict[int, list[bytes]] = {0: [], 1: []}
    for partition, batch in replay_log(log, "agent-events", _ON, size=size):
        found[partition] += [encode_verdict(verdict) for _, verdict in batch.verdicts]
    for partition, records_of in apart.items():
        replay = PartitionReplay("agent-events", partition, [Span(0, _ON)])
        expected = [value for batch in replay.fold(records_of) for _, value in batch.encoded_verdicts()]
        assert expected
        assert found[partition] == expected
