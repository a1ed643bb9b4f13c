"""The task manager: a supervisor that owns slots, and the slot workers that run tasks in them."""
