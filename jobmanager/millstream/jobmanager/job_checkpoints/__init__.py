"""The checkpoints of one job: the shell around the pure coordinator, in parts."""
