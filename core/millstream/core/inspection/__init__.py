"""Looking into a process while it runs: its threads, and what they spend their time with."""
