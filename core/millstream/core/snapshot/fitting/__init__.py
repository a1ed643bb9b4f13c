"""Whether a program fits a snapshot."""
