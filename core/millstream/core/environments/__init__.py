"""The artifacts of jobs, and the environments in which their processes run."""
