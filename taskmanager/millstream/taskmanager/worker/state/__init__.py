"""State behind one interface, implemented by the heap backend and others."""
