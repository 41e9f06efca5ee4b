"""The Faust worker: batches in, verdicts and rows out, effectively once (design: delivery).

One event's way: ``consumer`` (a chunk of a partition) → ``agents`` (fold, write, finish) → ``writer`` and ``sender``
(acknowledged) → ``rows`` (what memory holds). ``partitions`` takes and loses partitions, ``tables`` is what Faust knows
of them, ``app`` puts it together and ``worker`` runs it.
"""
