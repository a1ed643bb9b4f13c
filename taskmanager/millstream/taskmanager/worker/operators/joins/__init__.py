"""Joins by how close records are in event time."""
