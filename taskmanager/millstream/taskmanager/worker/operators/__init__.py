"""Operators, which run inside of tasks, one kind per file; `registry` finds the one for a specification."""
