"""Data that outlives a process: leaders, and pointers to job graphs and checkpoints."""
