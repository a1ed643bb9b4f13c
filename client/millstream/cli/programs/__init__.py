"""Commands about programs: `run` and `info`."""
