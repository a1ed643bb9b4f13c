"""`millstream profile` and `millstream thread-dump`: what a running cluster spends its time with."""
