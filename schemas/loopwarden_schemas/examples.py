"""The golden examples: messages as they stand on the wire, one file each.

They are written once and stay: what a runner of any version has sent must be readable for good. ``generate`` shows them
in the AsyncAPI document; the contract tests decode every one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["FOLDER", "Example", "examples", "partitioning"]

FOLDER = Path(__file__).parent / "examples"


@dataclass(frozen=True)
class Example:
    """One golden message.

    Attributes:
        topic: Topic, without a prefix.
        name: File name without its ending.
        payload: The message.
    """

    topic: str
    name: str
    payload: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.topic}/{self.name}"

    @property
    def wire(self) -> bytes:
        """The message as bytes."""
        return json.dumps(self.payload, ensure_ascii=False).encode()


def examples(topic: str | None = None) -> list[Example]:
    """All golden messages, or those of one topic, sorted by topic and name."""
    paths = sorted(FOLDER.glob(f"{topic or '*'}/*.json"))
    return [Example(path.parent.name, path.stem, json.loads(path.read_text(encoding="utf-8"))) for path in paths]


def partitioning() -> list[dict[str, Any]]:
    """Keys with their murmur2 hash and, by number of partitions, the partition that the Java client gives them."""
    vectors: list[dict[str, Any]] = json.loads((FOLDER / "partitioning.json").read_text(encoding="utf-8"))["vectors"]
    return vectors
