"""Windows over rows: which records come together, and when."""
