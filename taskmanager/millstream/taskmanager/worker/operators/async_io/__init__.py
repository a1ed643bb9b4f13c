"""Asynchronous functions, which process many records concurrently."""
