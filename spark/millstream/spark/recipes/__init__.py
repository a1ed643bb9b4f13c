"""Recipes: what `millstream state bootstrap` and `rewrite` are to do, as a small file."""
