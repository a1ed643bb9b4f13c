"""State as checkpoints hold it: captured, as tables, and restored."""
