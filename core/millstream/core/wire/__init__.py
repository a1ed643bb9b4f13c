"""Messages on their way in and out of a process."""
