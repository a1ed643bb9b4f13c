"""State in checkpoints: captured, converted to tables, and restored."""
