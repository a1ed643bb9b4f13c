"""What users write, made into what operators run."""
