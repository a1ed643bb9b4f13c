"""The slot worker: the process that runs the tasks of a slot."""
