"""Operators at the end of a stream: where its records go."""
