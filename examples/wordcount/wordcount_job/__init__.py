"""A job that counts words; see `wordcount_job.job`."""
