"""Why a worker stops. Nothing is lost by stopping: what was not committed is folded again by whoever comes next."""

from __future__ import annotations

from loopwarden.errors import BrokerError, LoopWardenError, StateError

__all__ = ["DeliveryTimeout", "Fenced", "PartitionLost", "StateLoss", "TooManyRejected"]


class Fenced(BrokerError):
    """Another worker took over a partition that this one believed to be its own."""


class PartitionLost(LoopWardenError):
    """The partition went to another worker in the middle of a batch: the batch is dropped, the new owner folds it."""


class DeliveryTimeout(BrokerError):
    """The broker did not acknowledge a write in time."""


class StateLoss(StateError):
    """The tables do not belong to this log, or lack what was committed."""


class TooManyRejected(LoopWardenError):
    """Nearly every event is rejected: more likely this worker is wrong than all runners."""
