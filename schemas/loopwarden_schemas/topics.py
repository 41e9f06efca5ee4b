"""Every topic once: name, key, retention, clean-up, compatibility.

Partitions are the same for all and fixed for life: a run's events, rows and verdicts share a partition number.
Compatibility is that of the contract: fields are only added, and an unknown field is ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = [
    "BARRIER_KEY",
    "CHANGELOG_BYTES",
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


@dataclass(frozen=True)
class TopicSpec:
    """One topic as it must be.

    Attributes:
        name: Full name, with prefix.
        partitions: Number of partitions.
        config: Broker settings of the topic.
        description: What it carries, who writes, who reads.
    """

    name: str
    partitions: int
    config: dict[str, str] = field(default_factory=dict)
    description: str = ""


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
            ),
            self._spec(
                self.verdicts,
                "Verdicts and forecasts. Written by workers only, followed by runners. Kept 7 days.",
                {
                    "cleanup.policy": "delete",
                    "retention.ms": str(7 * _DAY_MS),
                    "max.message.bytes": str(VERDICT_BYTES),
                },
            ),
            self._spec(
                self.dead_letters,
                "Events that could not be taken: original bytes, the reason in headers. Kept 30 days.",
                {
                    "cleanup.policy": "delete",
                    "retention.ms": str(30 * _DAY_MS),
                    "max.message.bytes": str(EVENT_BYTES + DEAD_LETTER_MARGIN),
                },
            ),
            self._spec(
                self.shadow_verdicts,
                "Verdicts of shadow judges. Written by workers, read by people. Kept 7 days.",
                {
                    "cleanup.policy": "delete",
                    "retention.ms": str(7 * _DAY_MS),
                    "max.message.bytes": str(VERDICT_BYTES),
                },
            ),
            self._spec(self.history_ring, "Changelog of table history-ring.", changelog),
            self._spec(self.post_compaction_window, "Changelog of table post-compaction-window.", changelog),
        ]

    def _spec(self, name: str, description: str, config: dict[str, str]) -> TopicSpec:
        return TopicSpec(name, self.partitions, config, description)
