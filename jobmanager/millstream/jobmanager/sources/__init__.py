"""The split enumerators of a job's sources, which run in a separate process."""
