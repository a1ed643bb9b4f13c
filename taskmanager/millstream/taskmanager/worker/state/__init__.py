"""State behind one interface, with the heap as its first backend."""
