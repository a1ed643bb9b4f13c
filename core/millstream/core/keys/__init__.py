"""Keys and key groups."""
