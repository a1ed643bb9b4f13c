"""Processes: children, daemons, loops, and what is handed to them."""
