"""What has to outlive a process: who leads, and pointers to job graphs and checkpoints."""
