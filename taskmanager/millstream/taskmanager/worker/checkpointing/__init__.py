"""Checkpoints inside a task: barriers, alignment, and the snapshot of its operators."""
