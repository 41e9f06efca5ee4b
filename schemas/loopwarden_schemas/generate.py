"""Writes the generated documents of the contract: ``python -m loopwarden_schemas.generate [--check]``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from loopwarden_schemas import json_schema
from loopwarden_schemas.asyncapi import asyncapi_document

__all__ = ["COMMAND", "FOLDER", "documents", "drifted", "main"]

FOLDER = Path(__file__).parent / "generated"
COMMAND = "python -m loopwarden_schemas.generate"
_DOCUMENTS: dict[str, Callable[[], dict[str, Any]]] = {
    "asyncapi.json": asyncapi_document,
    "configuration.schema.json": json_schema.configuration_schema,
    "events.schema.json": json_schema.events_schema,
    "verdicts.schema.json": json_schema.verdicts_schema,
}


def documents() -> dict[str, str]:
    """File name to text of every generated document."""
    return {name: json.dumps(document(), indent=2, ensure_ascii=False) + "\n" for name, document in _DOCUMENTS.items()}


def drifted(folder: Path | None = None) -> list[str]:
    """Names of documents in a folder that are not what the code says: changed, missing, left over.

    Args:
        folder: Where they are; None for where they are checked in.
    """
    wanted = documents()
    there = {path.name: path.read_text(encoding="utf-8") for path in (folder or FOLDER).glob("*.json")}
    return sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the documents; with ``--check`` only compares, and exits with 1 where one differs."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="JSON Schema and AsyncAPI of the wire contract.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where a document differs")
    changed = drifted()
    if parser.parse_args(arguments).check:
        for name in changed:
            print(f"{name} is not what the code says: run {COMMAND}", file=sys.stderr)
        return 1 if changed else 0
    wanted = documents()
    FOLDER.mkdir(exist_ok=True)
    for name in changed:
        if name in wanted:
            (FOLDER / name).write_text(wanted[name], encoding="utf-8")
            print(f"wrote {FOLDER / name}")
        else:
            (FOLDER / name).unlink()
            print(f"removed {FOLDER / name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
