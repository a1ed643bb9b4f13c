"""The supervisor: the process that owns slots and looks after the workers in them."""
