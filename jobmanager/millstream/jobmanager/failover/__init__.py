"""What happens when tasks fail: whether to restart, when, which subtasks, and what is remembered of it. All pure."""
