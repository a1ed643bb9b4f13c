"""Inspection of a running process: its threads, and how they spend their time."""
