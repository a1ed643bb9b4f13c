"""One source behind the other: the enumerator that switches, the readers that follow, and their messages."""
