"""`millstream state`: looks into savepoints and checkpoints."""
