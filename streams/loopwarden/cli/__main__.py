"""``python -m loopwarden.cli``: how ``up`` and ``demo`` start a worker of the same installation."""

from __future__ import annotations

import sys

from loopwarden.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
