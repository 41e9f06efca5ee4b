"""Brokers: the embedded one, and the topics that every broker must have."""
