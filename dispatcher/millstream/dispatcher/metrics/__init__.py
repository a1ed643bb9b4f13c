"""What the dispatcher knows of the metrics of all other processes."""
