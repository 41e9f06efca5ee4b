"""What the wire contract promises: generated documents, golden examples, compatibility."""
