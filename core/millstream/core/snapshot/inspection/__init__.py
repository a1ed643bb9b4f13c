"""Inspection of snapshots."""
