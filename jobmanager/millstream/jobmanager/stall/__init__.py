"""Finds out why a job emits no results: the observed facts, and findings about them."""
