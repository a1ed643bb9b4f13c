"""Options and what was set of them."""
