"""Millstream."""
