"""Failure handling: whether to restart, when, which subtasks, and the history of exceptions. All pure."""
