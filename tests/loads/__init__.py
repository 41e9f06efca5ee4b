"""Loads: recorded runs as the records of a partition, and what folding them gives."""
