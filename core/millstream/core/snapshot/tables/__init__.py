"""State as Arrow tables and files."""
