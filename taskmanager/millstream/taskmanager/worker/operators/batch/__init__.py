"""Jobs that are run as batches: operators get their records in another order than that in which these come."""
