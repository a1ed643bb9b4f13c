"""Records: their types, and how they are encoded, copied and handed over."""
