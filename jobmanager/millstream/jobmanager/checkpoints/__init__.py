"""Checkpoint coordination: when snapshots are taken, when they are complete, which are kept. All pure."""
