"""The supervisor: the process that owns slots and supervises the workers in them."""
