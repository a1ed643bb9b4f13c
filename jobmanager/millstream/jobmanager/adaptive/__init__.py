"""The parallelism of a job: its bounds, the slots it needs, and when it is rescaled."""
