"""From a program to its job graph."""
