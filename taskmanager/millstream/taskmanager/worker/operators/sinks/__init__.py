"""Sinks: the operators at the end of a stream."""
