"""How services speak with each other."""
