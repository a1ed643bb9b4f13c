"""Windows over columns: their rows, in panes or sessions of partial aggregates, kept as Arrow tables."""
