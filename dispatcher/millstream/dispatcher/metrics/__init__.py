"""The metrics of all other processes, as fetched by the dispatcher."""
