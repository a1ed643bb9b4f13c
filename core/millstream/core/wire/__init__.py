"""Messages in flight in and out of a process."""
