"""Files and folders on this host: private folders, durable writes, safe deletion."""
