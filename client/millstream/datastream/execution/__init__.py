"""How programs are executed, and how they get their results."""
