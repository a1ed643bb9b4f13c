"""Functions that wait for many records at the same time."""
