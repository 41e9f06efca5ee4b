"""The parameters of profile ``progress`` (progress, 2): as written, checked, and as the fold uses them.

In the file they stand under ``loopwarden.progress``, for all agents or for one, by the names of the rule book
(``pause_s``) or in camel case (``pauseS``) like the rest of the file. Prices and thresholds are multiples of a quarter
point; the fold counts in quarters, so that it never rounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from loopwarden_schemas.field_types import Positive, not_null

__all__ = ["BATCH_LIMIT", "MEMORY_LIMIT", "OPEN_LIMIT", "QUARTERS", "ProgressParameters", "ProgressSettings"]

QUARTERS = 4
"""Quarters a point."""
MEMORY_LIMIT = 48
"""Calls remembered at most: a run's state stays within 4 KB whatever is configured (progress, 4)."""
OPEN_LIMIT = 4
"""Unanswered steps kept open at most, for the same reason."""
BATCH_LIMIT = 16
"""Members of a batch kept together at most, for the same reason."""
_CHURN_LIMIT = 8
_MOST_POINTS = 1_000
_MOST_SECONDS = 30 * 86_400


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("Input should be a number")
    return value


def _quarters(value: float) -> float:
    if (value * QUARTERS) % 1:
        raise ValueError("Input should be a multiple of 0.25")
    return value


_Price = Annotated[
    float, BeforeValidator(_number), Field(ge=0, le=_MOST_POINTS, allow_inf_nan=False), AfterValidator(_quarters)
]
_Threshold = Annotated[
    float, BeforeValidator(_number), Field(gt=0, le=_MOST_POINTS, allow_inf_nan=False), AfterValidator(_quarters)
]
_Seconds = Annotated[float, BeforeValidator(_number), Field(ge=0, le=_MOST_SECONDS, allow_inf_nan=False)]
_WrittenPrice = Annotated[_Price | None, BeforeValidator(not_null)]
_WrittenThreshold = Annotated[_Threshold | None, BeforeValidator(not_null)]
_WrittenSeconds = Annotated[_Seconds | None, BeforeValidator(not_null)]
_WrittenCount = Annotated[Positive | None, BeforeValidator(not_null)]


class ProgressParameters(BaseModel):
    """One block of parameters, as written: an absent one is None."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)

    warning: _WrittenThreshold = None
    critical: _WrittenThreshold = None
    fault: _WrittenPrice = None
    repeat: _WrittenPrice = None
    thrash: _WrittenPrice = None
    reworded: _WrittenPrice = None
    waiting: _WrittenPrice = None
    spaced: _WrittenPrice = None
    pause_s: _WrittenSeconds = None
    relief: _WrittenPrice = None
    memory: Annotated[_WrittenCount, Field(le=MEMORY_LIMIT)] = None
    open_max: Annotated[_WrittenCount, Field(le=OPEN_LIMIT)] = None
    batch_max: Annotated[_WrittenCount, Field(le=BATCH_LIMIT)] = None
    guard: _WrittenCount = None
    churn_compactions: Annotated[_WrittenCount, Field(le=_CHURN_LIMIT)] = None
    churn_calls: _WrittenCount = None
    widen_after: _WrittenCount = None
    abort_after: _WrittenCount = None


@dataclass(frozen=True, slots=True)
class ProgressSettings:
    """Effective parameters. Points are in **quarters**, times in milliseconds (progress, 2).

    Attributes:
        warning: Points at which a costly call is warned.
        critical: Points at which it is refused; above ``warning``.
        fault: The same call failed the same way; the same write again; a tool that does not exist.
        repeat: The same call, the same result.
        thrash: Another call of the tool failed in the same class.
        reworded: Same tool and target, other words, same result.
        waiting: An unchanged wait; a transient failure again; a repeat of a call whose outcome never came.
        spaced: The same after a pause.
        pause_ms: Idle milliseconds that make a look deliberate.
        relief: Taken off by a step with news.
        memory: Calls remembered.
        open_max: Unanswered steps kept open.
        batch_max: Members of one batch kept together.
        guard: Repeats after a compaction; compactions without news; compactions without a call.
        churn_compactions: So many compactions …
        churn_calls: … within so many calls: warn.
        widen_after: Refused attempts before the whole tool is refused.
        abort_after: Refused attempts before the run is stopped.
        most: Points never rise above this.
        dearest: The highest price.
    """

    warning: int = 10 * QUARTERS
    critical: int = 20 * QUARTERS
    fault: int = 4 * QUARTERS
    repeat: int = 3 * QUARTERS
    thrash: int = 5
    reworded: int = 1 * QUARTERS
    waiting: int = 1 * QUARTERS
    spaced: int = 1
    pause_ms: int = 60_000
    relief: int = 10 * QUARTERS
    memory: int = MEMORY_LIMIT
    open_max: int = OPEN_LIMIT
    batch_max: int = BATCH_LIMIT
    guard: int = 3
    churn_compactions: int = 5
    churn_calls: int = 20
    widen_after: int = 3
    abort_after: int = 6

    most: int = field(init=False, repr=False, compare=False)
    dearest: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Works out what the fold asks for at every event."""
        prices = (self.fault, self.repeat, self.thrash, self.reworded, self.waiting, self.spaced)
        object.__setattr__(self, "most", 2 * self.critical)
        object.__setattr__(self, "dearest", max(prices))

    @classmethod
    def of(cls, *blocks: ProgressParameters | None) -> ProgressSettings:
        """Defaults blocks of parameters; a later block wins, parameter by parameter.

        Raises:
            ValueError: ``critical`` is not above ``warning``.
        """
        written: dict[str, Any] = {}
        for block in blocks:
            if block is not None:
                written |= block.model_dump(exclude_none=True)
        used: dict[str, int] = {}
        for name, value in written.items():
            if name == "pause_s":
                used["pause_ms"] = round(value * 1000)
            else:
                used[name] = round(value * QUARTERS) if name in _POINTS else value
        settings = cls(**used)
        if settings.critical <= settings.warning:
            raise ValueError(
                f"critical should be above warning, got {settings.critical / QUARTERS:g} and "
                f"{settings.warning / QUARTERS:g}"
            )
        return settings

    def described(self) -> dict[str, float]:
        """The parameters by their names in the rule book, in points and seconds, for people."""
        shown: dict[str, float] = {}
        for item in fields(self):
            if not item.init:
                continue
            value = getattr(self, item.name)
            if item.name == "pause_ms":
                shown["pause_s"] = value / 1000
            else:
                shown[item.name] = value / QUARTERS if item.name in _POINTS else value
        return shown


_POINTS = frozenset(
    ["warning", "critical", "fault", "repeat", "thrash", "reworded", "waiting", "spaced", "relief"],
)
