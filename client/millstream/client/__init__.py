"""What submits jobs and waits for them: executors, the embedded cluster, and the program runner."""
