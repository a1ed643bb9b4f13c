"""Statistics of a job's checkpoints."""
