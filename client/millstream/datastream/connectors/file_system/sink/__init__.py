"""The file sink: which part files there are, how they are written, and when they end."""
