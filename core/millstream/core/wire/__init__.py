"""The encoding of messages between processes."""
