"""Files and folders on this host."""
