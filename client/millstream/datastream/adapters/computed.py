"""Tells expressions from functions, without loading what computes them: that takes 20 ms, and few programs use it."""

from __future__ import annotations


class Computed:
    """Base of what streams take in place of a function, and compute for whole batches."""

    __slots__ = ()
