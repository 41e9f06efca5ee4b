"""Writes the dashboards: ``python -m grafana.build [FOLDER]``. The JSON is checked in; a test builds it again."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from grafana_foundation_sdk.builders.dashboard import Dashboard as Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from grafana.loops import loops
from grafana.worker import worker

__all__ = ["DASHBOARDS", "build"]

DASHBOARDS = Path(__file__).parent / "dashboards"


def build() -> dict[str, str]:
    """File name to content of every dashboard."""
    return {"loops.json": _text(loops()), "worker.json": _text(worker())}


def _text(builder: Builder) -> str:
    board = builder.build()
    for number, panel in enumerate(board.panels or [], 1):
        # Links to a panel go by its id: it must not depend on what Grafana makes of a missing one.
        panel.id_val = number
    return json.dumps(board, cls=JSONEncoder, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DASHBOARDS
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in build().items():
        (folder / name).write_text(text, encoding="utf-8")
