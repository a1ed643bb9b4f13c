"""The store in a directory, for the processes of one host; `store.py` defines its guarantees and limits."""
