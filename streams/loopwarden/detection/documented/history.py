"""The ring of a run: the last ``historySize`` calls with their outcomes (rule 4).

Columns instead of records: they decode fast, and counting runs in C. Position 0 is the oldest.
"""

from __future__ import annotations

from msgspec import Struct

__all__ = ["OPEN", "History", "PingPong"]

OPEN = b""
"""Outcome of a call that has none yet."""
_NAMES_SLACK = 16


class PingPong(Struct, frozen=True):
    """An alternation that the current call would continue (rule 5.3).

    Attributes:
        count: Length of the alternating tail, and the current call.
        stable: Every call of the tail has an outcome, equal on each side.
        tool: Tool of the newest record: the paired tool.
        signature: Signature of the newest record.
    """

    count: int
    stable: bool
    tool: str
    signature: bytes


class History(Struct, array_like=True):
    """The ring.

    Attributes:
        names: Tool names in use.
        tools: Per record, twice the index in ``names``, plus one for a known poll.
        signatures: Per record, eight bytes over tool and arguments.
        calls: Per record, eight bytes of the call id, empty where there is none.
        outcomes: Per record, eight bytes of the outcome, ``OPEN`` where there is none yet.
        missing: Per record, the unknown tool that the error named, else empty.
    """

    names: list[str] = []
    tools: list[int] = []
    signatures: list[bytes] = []
    calls: list[bytes] = []
    outcomes: list[bytes] = []
    missing: list[str] = []

    def __len__(self) -> int:
        return len(self.signatures)

    def tool_at(self, index: int) -> str:
        """Tool name of a record."""
        return self.names[self.tools[index] >> 1]

    def poll_at(self, index: int) -> bool:
        """Whether a record is a known poll."""
        return bool(self.tools[index] & 1)

    def record_call(self, tool: str, poll: bool, signature: bytes, call: bytes, size: int) -> None:
        """Appends a call (rule 4).

        Args:
            tool: Stored tool name.
            poll: It is a known poll.
            signature: Signature of the call.
            call: Hash of the call id, empty where there is none.
            size: Effective ring size, 1 or more.
        """
        self._append(tool, poll, signature, call, OPEN, "", size)

    def record_outcome(
        self, tool: str, poll: bool, signature: bytes, call: bytes, outcome: bytes, missing: str, size: int
    ) -> bool:
        """Fills the newest open record of this call, else appends a completed one (rule 4).

        Args:
            tool: Stored tool name.
            poll: It is a known poll.
            signature: Signature of the call.
            call: Hash of the call id; empty matches any.
            outcome: Eight bytes of the outcome, not empty.
            missing: Unknown tool that the error named, else empty.
            size: Effective ring size, 1 or more.

        Returns:
            Whether a record was filled.
        """
        signatures, outcomes, calls = self.signatures, self.outcomes, self.calls
        for index in range(len(signatures) - 1, -1, -1):
            if signatures[index] == signature and not outcomes[index] and (not call or calls[index] == call):
                outcomes[index] = outcome
                self.missing[index] = missing
                self._trim(size)
                return True
        self._append(tool, poll, signature, call, outcome, missing, size)
        return False

    def open_call(self, tool: str, call: bytes) -> int | None:
        """Index of the newest open record with this call id and tool, None where there is none."""
        for index in range(len(self) - 1, -1, -1):
            if self.calls[index] == call and not self.outcomes[index] and self.tool_at(index) == tool:
                return index
        return None

    def remove(self, index: int) -> None:
        """Takes a record back."""
        for column in (self.tools, self.signatures, self.calls, self.outcomes, self.missing):
            del column[index]

    def _append(
        self, tool: str, poll: bool, signature: bytes, call: bytes, outcome: bytes, missing: str, size: int
    ) -> None:
        try:
            name = self.names.index(tool)
        except ValueError:
            name = len(self.names)
            self.names.append(tool)
        self.tools.append(name << 1 | poll)
        self.signatures.append(signature)
        self.calls.append(call)
        self.outcomes.append(outcome)
        self.missing.append(missing)
        self._trim(size)

    def _trim(self, size: int) -> None:
        excess = len(self.signatures) - size
        if excess <= 0:
            return
        del self.tools[:excess], self.signatures[:excess], self.calls[:excess]
        del self.outcomes[:excess], self.missing[:excess]
        if len(self.names) > len(self.signatures) + _NAMES_SLACK:
            self._forget_names()

    def _forget_names(self) -> None:
        old = self.names
        used = dict.fromkeys(tool >> 1 for tool in self.tools)
        place = {name: index for index, name in enumerate(used)}
        self.names = [old[name] for name in used]
        self.tools = [place[tool >> 1] << 1 | tool & 1 for tool in self.tools]

    def no_progress(self, signature: bytes) -> tuple[int, bytes]:
        """Length of the no-progress streak of a signature and its outcome (rule 5.2); 0 and empty where none."""
        outcomes, signatures = self.outcomes, self.signatures
        newest, count = OPEN, 0
        for index in range(len(signatures) - 1, -1, -1):
            if signatures[index] == signature and (outcome := outcomes[index]):
                if not newest:
                    newest = outcome
                elif outcome != newest:
                    break
                count += 1
        return count, newest

    def unknown_tool(self, tool: str) -> tuple[int, str]:
        """Length of the unknown-tool streak of a tool and the name it missed (rule 5.1)."""
        missing = self.missing
        if not missing or not missing[-1]:
            return 0, ""
        name, count = missing[-1], 0
        for index in range(len(missing) - 1, -1, -1):
            if missing[index] != name or self.tool_at(index) != tool:
                break
            count += 1
        return (count, name) if count else (0, "")

    def other_leg(self) -> int | None:
        """Index of the newest record whose signature is not the newest one, None where there is none (rule 5.3)."""
        signatures = self.signatures
        if not signatures:
            return None
        last = signatures[-1]
        for index in range(len(signatures) - 2, -1, -1):
            if signatures[index] != last:
                return index
        return None

    def alternation(self, signature: bytes) -> PingPong | None:
        """The alternation that a call of this signature would continue, None where there is none (rule 5.3)."""
        signatures = self.signatures
        # A tail of two or more needs the two newest to differ, and the call to be the older of them.
        if len(signatures) < 2 or signatures[-2] != signature or signatures[-1] == signature:
            return None
        last = signatures[-1]
        tail = 0
        for index in range(len(signatures) - 1, -1, -1):
            if signatures[index] != (signature if tail & 1 else last):
                break
            tail += 1
        outcomes = self.outcomes[-tail:]
        stable = OPEN not in outcomes and len(set(outcomes[::2])) == 1 and len(set(outcomes[1::2])) == 1
        return PingPong(tail + 1, stable, self.tool_at(-1), last)
