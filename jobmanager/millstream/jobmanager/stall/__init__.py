"""Why nothing comes out of a job: the facts, and what they mean."""
