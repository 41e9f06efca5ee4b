"""LoopWarden: sees agents that are stuck in a tool loop, for a whole fleet."""
