"""When windows fire."""
