"""Options of the vector tests: which files to run."""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).parent.parent / "data"


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--vectors FILE`` and ``--recorded FILE`` run other files of the same form (repeatable)."""
    parser.addoption("--vectors", action="append", default=[], metavar="FILE", help="vectors to run instead of ours")
    parser.addoption("--recorded", action="append", default=[], metavar="FILE", help="recorded runs instead of ours")
