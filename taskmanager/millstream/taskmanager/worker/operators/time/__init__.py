"""Event time: where it comes from, and who is called back when it has come."""
