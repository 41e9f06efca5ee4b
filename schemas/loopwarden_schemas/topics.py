"""Every topic once: name, key, retention, clean-up, compatibility.

Partitions are the same for all and fixed for life: a run's events, rows and verdicts share a partition number.
Compatibility is that of the contract: fields are only added, and an unknown field is ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = [
    "BARRIER_KEY",
    "CHANGELOG_BYTES",
    "DEAD_LETTER_HEADERS",
    "DEAD_LETTER_MARGIN",
    "EVENT_BYTES",
    "RESERVED",
    "VERDICT_BYTES",
    "TopicSpec",
    "Topics",
]

_DAY_MS = 86_400_000
_MIB = 1_048_576
EVENT_BYTES = 1 * _MIB
"""Largest event, in bytes of the record batch."""
DEAD_LETTER_MARGIN = 64 * 1024
"""Dead letters carry the original bytes, its headers and the reason."""
VERDICT_BYTES = 1 * _MIB
"""Largest record batch of verdicts, in bytes."""
RESERVED = b"\0"
"""Keys that begin with NUL are the worker's own, in every topic: no run's. Readers of verdicts and rows skip them."""
BARRIER_KEY = RESERVED + b"barrier"
"""Record from which on the broker refuses a writer that lost the partition."""
CHANGELOG_BYTES = 8 * _MIB
"""One batch's rows go out as one record batch, which the broker appends whole or not at all."""
DEAD_LETTER_HEADERS = {
    "loopwarden.field": "Path of the offending field.",
    "loopwarden.reason": "What is wrong, without the value.",
    "loopwarden.value": "The offending value, clipped; absent for content.",
    "loopwarden.topic": "Topic of the event.",
    "loopwarden.partition": "Partition of the event.",
    "loopwarden.offset": "Offset of the event.",
    "loopwarden.timestamp": "Broker time of the event, epoch milliseconds.",
}
"""Headers that a dead letter has beside those of its event: UTF-8 text; one without a value is absent."""
_EVENT_KEY = "root_run_id where the event has one, else run_id: UTF-8, partitioned by murmur2"
_VERDICT_KEY = "the event's key; keys that begin with NUL are the worker's own: skip them"
_RUN_KEY = "run_id; keys that begin with NUL are the worker's own"
_FULL = "FULL_TRANSITIVE: fields are only added, each with a default; an unknown field is ignored"
_ORIGINAL = "NONE: the original bytes, whatever they are"
_ROWS = "BACKWARD: rows of the version before are read; a worker that meets a newer row refuses to start"


@dataclass(frozen=True)
class TopicSpec:
    """One topic as it must be.

    Attributes:
        name: Full name, with prefix.
        partitions: Number of partitions.
        config: Broker settings of the topic.
        description: What it carries, who writes, who reads.
        key: What the message key is.
        compatibility: What may change: a mode of the schema registries, and in words.
    """

    name: str
    partitions: int
    config: dict[str, str] = field(default_factory=dict)
    description: str = ""
    key: str = ""
    compatibility: str = ""


@dataclass(frozen=True)
class Topics:
    """The topics of one deployment.

    Attributes:
        prefix: Put before every name, such as ``staging.``: environments on one cluster.
        partitions: Number of partitions of every topic.
    """

    prefix: str = ""
    partitions: int = 8

    @property
    def events(self) -> str:
        """What runners publish; key: root run id, else run id."""
        return f"{self.prefix}agent-events"

    @property
    def verdicts(self) -> str:
        """The control topic; same key and partition as the event."""
        return f"{self.prefix}loop-verdicts"

    @property
    def dead_letters(self) -> str:
        """What could not be read, with the reason."""
        return f"{self.prefix}agent-events-dead-letter"

    @property
    def shadow_verdicts(self) -> str:
        """Verdicts of shadow judges; no runner follows it."""
        return f"{self.prefix}loop-verdicts-shadow"

    @property
    def app_id(self) -> str:
        """Consumer group, and prefix of the changelogs and of the writers' transactional ids."""
        return f"{self.prefix}loopwarden"

    @property
    def history_ring(self) -> str:
        """Changelog of the table ``history-ring``."""
        return f"{self.app_id}-history-ring-changelog"

    @property
    def post_compaction_window(self) -> str:
        """Changelog of the table ``post-compaction-window``."""
        return f"{self.app_id}-post-compaction-window-changelog"

    def specs(self) -> list[TopicSpec]:
        """Every topic with its settings, in the order in which they are created."""
        changelog = {
            "cleanup.policy": "compact",
            "max.message.bytes": str(CHANGELOG_BYTES),
            "min.cleanable.dirty.ratio": "0.1",
            "segment.ms": str(_DAY_MS // 4),
        }
        return [
            self._spec(
                self.events,
                "Events of agent runners. Written by runners, read by workers. Kept 7 days.",
                {
                    "cleanup.policy": "delete",
                    "retention.ms": str(7 * _DAY_MS),
                    "max.message.bytes": str(EVENT_BYTES),
                    # Idle expiry runs on the broker's clock: a runner's cannot expire its neighbours.
                    "message.timestamp.type": "LogAppendTime",
                },
                _EVENT_KEY,
                _FULL,
            ),
            self._spec(
                self.verdicts,
                "Verdicts and forecasts. Written by workers only, followed by runners. Kept 7 days.",
                {
                    "cleanup.policy": "delete",
                    "retention.ms": str(7 * _DAY_MS),
                    "max.message.bytes": str(VERDICT_BYTES),
                },
                _VERDICT_KEY,
                _FULL,
            ),
            self._spec(
                self.dead_letters,
                "Events that could not be taken: original bytes, the reason in headers. Kept 30 days.",
                {
                    "cleanup.policy": "delete",
                    "retention.ms": str(30 * _DAY_MS),
                    "max.message.bytes": str(EVENT_BYTES + DEAD_LETTER_MARGIN),
                },
                "as the event has it",
                _ORIGINAL,
            ),
            self._spec(
                self.shadow_verdicts,
                "Verdicts of shadow judges. Written by workers, read by people. Kept 7 days.",
                {
                    "cleanup.policy": "delete",
                    "retention.ms": str(7 * _DAY_MS),
                    "max.message.bytes": str(VERDICT_BYTES),
                },
                _VERDICT_KEY,
                _FULL,
            ),
            self._spec(self.history_ring, "Changelog of table history-ring.", changelog, _RUN_KEY, _ROWS),
            self._spec(
                self.post_compaction_window,
                "Changelog of table post-compaction-window.",
                changelog,
                _RUN_KEY,
                _ROWS,
            ),
        ]

    def _spec(self, name: str, description: str, config: dict[str, str], key: str, compatibility: str) -> TopicSpec:
        return TopicSpec(name, self.partitions, config, description, key, compatibility)
