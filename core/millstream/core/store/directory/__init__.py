"""The store in a directory, for the processes of one host; `store.py` says what it promises, and what it cannot."""
