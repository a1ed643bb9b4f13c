"""`millstream security`: certificates and tokens."""
