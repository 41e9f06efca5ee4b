"""Errors of the wire contract.

ContractError
├── WireError              a message that cannot be taken: names field, value and reason
│   └── UnknownEventType   well-formed, but of a type this version does not know
└── ConfigurationError     a configuration file that cannot be taken: names file, path and value
"""

from __future__ import annotations

__all__ = ["ConfigurationError", "ContractError", "UnknownEventType", "WireError", "clip"]

VALUE_LIMIT = 80
"""Characters of an offending value that an error shows."""


def clip(value: object) -> str:
    """Shows a value in an error: printable ASCII, at most ``VALUE_LIMIT`` characters, never a terminal escape."""
    if isinstance(value, str) and len(value) > VALUE_LIMIT:
        return f"{value[:VALUE_LIMIT]!a}… ({len(value)} characters)"
    text = ascii(value)
    return text if len(text) <= VALUE_LIMIT else f"{text[:VALUE_LIMIT]}… ({len(text)} characters)"


class ContractError(Exception):
    """Something breaks the wire contract."""


class WireError(ContractError):
    """A message that cannot be taken.

    Attributes:
        field: Path of the field, such as ``run_id`` or ``facts.args_fp``; ``message`` for the message as a whole.
        value: The offending value, clipped; empty for content (arguments and results never enter an error).
        reason: What is wrong, without the value.
    """

    def __init__(self, field: str, reason: str, value: str = "") -> None:
        super().__init__(f"{field}: {reason}" + (f", got {value}" if value else ""))
        self.field = field
        self.reason = reason
        self.value = value


class UnknownEventType(WireError):
    """A well-formed event of a type that this version does not know: a newer runner sent it."""


class ConfigurationError(ContractError):
    """A configuration that cannot be taken.

    Attributes:
        problems: One line each, with file, path and value.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems
