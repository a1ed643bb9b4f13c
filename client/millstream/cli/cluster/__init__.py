"""`millstream cluster`: a whole local cluster in the background."""
