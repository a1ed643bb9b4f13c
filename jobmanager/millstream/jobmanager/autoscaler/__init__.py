"""Decides by itself at which parallelism a job should run."""
