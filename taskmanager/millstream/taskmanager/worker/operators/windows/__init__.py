"""Windows over rows."""
