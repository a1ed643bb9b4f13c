"""The job manager: one JobMaster for each job, and the enumerator processes that run the jobs' own code."""
