"""The storage of snapshots."""
