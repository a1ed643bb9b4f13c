"""Operators: what runs inside a task. One kind a file; `registry` finds the one for a specification."""
