"""What the fields of a configuration have in common: how a number, a flag, an absent value is read."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

__all__ = ["Natural", "Positive", "integral", "not_null"]


def integral(value: object) -> object:
    """JSON has one kind of number: 10.0 is an integer, true is not."""
    if isinstance(value, bool):
        raise ValueError("Input should be an integer")
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def not_null(value: object) -> object:
    """An absent key and null are not the same: null is an error."""
    if value is None:
        raise ValueError("Input should not be null; leave the key out instead")
    return value


Positive = Annotated[int, BeforeValidator(integral), Field(ge=1, strict=True)]
Natural = Annotated[int, BeforeValidator(integral), Field(ge=0, strict=True)]
