"""Vector files as test cases."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent.parent / "data"


@dataclass(frozen=True)
class Case:
    """One vector or recorded run, and the file it stands in."""

    file: str
    vector: dict[str, Any]

    def __str__(self) -> str:
        return str(self.vector["name"])


def _given(option: str) -> list[Path]:
    """Values of a repeatable option: parametrisation happens before fixtures could hand them over."""
    found = []
    for index, word in enumerate(sys.argv):
        if word.startswith(option + "="):
            found.append(Path(word.split("=", 1)[1]))
        elif word == option and index + 1 < len(sys.argv):
            found.append(Path(sys.argv[index + 1]))
    return found


def _read(paths: list[Path]) -> list[Case]:
    return [
        Case(path.name, json.loads(line)) for path in paths for line in path.read_text().splitlines() if line.strip()
    ]


def cases(*names: str, profile: str | None = None) -> list[Case]:
    """Cases of our vector files, or of those that ``--vectors`` names; of one profile."""
    paths = _given("--vectors") or [DATA / "vectors" / f"{name}.jsonl" for name in names]
    paths = [path for path in paths if path.suffix == ".jsonl"]
    return [case for case in _read(paths) if case.vector.get("profile") == profile]


def recorded() -> list[Case]:
    """Recorded runs of the real OpenClaw, or those that ``--recorded`` names."""
    return _read(_given("--recorded") or [DATA / "traces" / "openclaw-runs.jsonl"])
