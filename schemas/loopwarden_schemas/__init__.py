"""The wire contract of LoopWarden: events, verdicts, topics, fingerprints, configuration."""
