"""Detection: pure. ``fold.fold`` takes a run's state and an event and gives the next state and the verdicts.

No clock, no I/O, no asyncio, no logging, no metrics: worker, replay, back-test, in-process twin and tests all call the
same function, so the same log always gives the same verdicts.
"""
