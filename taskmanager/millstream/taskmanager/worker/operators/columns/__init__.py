"""Kernels over columns that any operator may use: keys to group by, the columns of a batch, partial aggregates."""
