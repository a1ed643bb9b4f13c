"""The model of a snapshot, and its JSON."""
