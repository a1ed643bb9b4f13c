"""What is known of a job's checkpoints."""
