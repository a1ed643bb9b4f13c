"""The enumerators of a job's sources, in a process of their own."""
