"""Tasks: attempts of subtasks, each made of gates, a chain of operators and partitions."""
