"""`millstream top`: what runs on a cluster and how fast, live."""
