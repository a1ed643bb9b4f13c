"""What a job starts from."""
