"""`millstream state`: reads savepoints and checkpoints."""
