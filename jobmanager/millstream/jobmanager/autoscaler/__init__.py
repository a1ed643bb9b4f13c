"""The autoscaler: changes the parallelism of a job according to its measured load."""
