"""Where snapshots are stored."""
