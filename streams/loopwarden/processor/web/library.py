"""Reads runs up in the topics for the page: a few at a time, and not again on every refresh."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict

from loopwarden.errors import LoopWardenError
from loopwarden.processor.web.inspection import PastRun, Records

__all__ = ["Library"]

TIMEOUT_S = 20.0
AT_ONCE = 2
"""The worker has other work: so many are read up at the same time."""
KEPT = 32
LASTING_S = 60.0
LIVE_S = 15.0


class Library:
    """Keeps what was read for a while.

    Args:
        records: Reads up; None knows nothing.
    """

    def __init__(self, records: Records | None) -> None:
        self._records = records
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._kept: OrderedDict[str, tuple[float, PastRun | None]] = OrderedDict()

    async def read(self, run_id: str, partition: int | None, *, lasting: bool) -> tuple[PastRun | None, str]:
        """Reads up on a run.

        Args:
            run_id: The run.
            partition: Its partition, None where nobody knows it.
            lasting: It is not alive: nothing will change soon.

        Returns:
            What the topics say, None for nothing; and what went wrong, empty for nothing.
        """
        if self._records is None:
            return None, ""
        try:
            async with asyncio.timeout(TIMEOUT_S), self._turns:
                kept = self._kept.get(run_id)
                if kept is not None and kept[0] > time.monotonic():
                    return kept[1], ""
                past = await self._records(run_id, partition)
        except TimeoutError:
            return None, f"the topics were not read within {TIMEOUT_S:.0f} s"
        except LoopWardenError as error:
            return None, f"the topics cannot be read: {error}"
        if past is not None:
            self._kept[run_id] = (time.monotonic() + (LASTING_S if lasting else LIVE_S), past)
            self._kept.move_to_end(run_id)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return past, ""
