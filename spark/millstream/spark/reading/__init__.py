"""Savepoints and checkpoints as data of Spark."""
