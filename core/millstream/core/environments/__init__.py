"""What a job brings with it, and the environments that its processes run in."""
