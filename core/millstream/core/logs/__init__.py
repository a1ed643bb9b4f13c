"""Logs, prints, and the text of failures."""
