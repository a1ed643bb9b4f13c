"""Keys, and the key groups that they belong to."""
