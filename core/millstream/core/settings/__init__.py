"""Options, and the configuration that holds their values."""
