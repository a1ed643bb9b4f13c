"""Checkpoint coordination: when checkpoints are triggered, when they are complete, which are retained. All pure."""
