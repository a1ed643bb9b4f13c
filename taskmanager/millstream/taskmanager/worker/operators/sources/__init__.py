"""Sources: operators without inputs, where the records of a job come from."""
