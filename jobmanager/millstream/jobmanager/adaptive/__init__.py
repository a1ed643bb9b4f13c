"""How parallel a job runs: within which bounds, in how many slots, and when that changes."""
