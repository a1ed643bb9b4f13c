"""Operators: what runs inside a task. One kind a file; `millstream.taskmanager.chain` builds them from their specs."""
