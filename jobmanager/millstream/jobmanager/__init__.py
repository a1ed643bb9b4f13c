"""The job manager: one JobMaster for each job, and the coordinator processes that run the jobs' own code."""
