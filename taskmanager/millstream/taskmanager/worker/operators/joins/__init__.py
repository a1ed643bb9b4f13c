"""Joins of records that are close in event time."""
