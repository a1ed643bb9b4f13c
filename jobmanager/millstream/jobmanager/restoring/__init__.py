"""Restoring a job from a snapshot or from running tasks."""
