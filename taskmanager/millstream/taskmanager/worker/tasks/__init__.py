"""Tasks: one attempt of one subtask each, made of gates, a chain of operators and partitions."""
