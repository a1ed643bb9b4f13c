"""Logs, prints, and how failures are told."""
